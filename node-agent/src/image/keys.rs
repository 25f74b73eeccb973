//! `image keys`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use rocferry_store::StoreError;
use rocferry_store::seal::{Keyring, SealError};

use super::access::{Access, key_config};
use crate::cli::{Answer, Exit};
use crate::error::Error;

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 done, 2 not done.")]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show which data key seals new checkpoints, and which ones cannot be used
    Show,
    /// Make a new data key for checkpoints from now on
    ///
    /// It is wrapped for what --identity, --recipients and --key-file give. Older checkpoints stay readable; new ones
    /// share no blocks with them.
    Rotate,
    /// Wrap all data keys again, for others
    ///
    /// Whoever is left out cannot read them any more, unless they kept them: rotate as well.
    Rewrap(Rewrap),
}

#[derive(Debug, clap::Args)]
struct Rewrap {
    /// A file with age identities
    #[arg(long, value_name = "FILE")]
    new_identity: Vec<PathBuf>,
    /// A file with age recipients
    #[arg(long, value_name = "FILE")]
    new_recipients: Vec<PathBuf>,
    /// A file with a key of 32 bytes
    #[arg(long, value_name = "FILE")]
    new_key_file: Vec<PathBuf>,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let text = match &self.verb {
            Verb::Show => show(store.keyring()),
            Verb::Rotate => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now = now.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
                let keys = self.access.keys()?;
                let id = store.rotate(&keys, now).await?;
                format!("data key {id} seals new checkpoints\n")
            }
            Verb::Rewrap(new) => {
                if !store.keyring().is_sealed() {
                    return Err(StoreError::from(SealError::StoreNotSealed).into());
                }
                let old = self.access.keys()?;
                let new = key_config(&new.new_identity, &new.new_recipients, &new.new_key_file)?;
                let count = Keyring::rewrap(&**store.backend(), &old, &new).await;
                let count = count.map_err(StoreError::from)?;
                format!("{count} data keys wrapped again\n")
            }
        };
        Ok(Answer {
            text,
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

fn show(keyring: &Keyring) -> String {
    let mut text = match keyring.current().id() {
        Some(id) => format!("{id} seals new checkpoints\n"),
        None => "the store is not sealed\n".to_owned(),
    };
    for id in keyring.locked() {
        text.push_str(&format!("{id} is not opened by what was given\n"));
    }
    for id in keyring.foreign() {
        text.push_str(&format!("{id} is somebody else's and never used\n"));
    }
    text
}
