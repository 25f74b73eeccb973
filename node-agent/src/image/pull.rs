//! `image pull`.

use std::path::PathBuf;
use std::sync::Arc;

use rocferry_image::manifest::CheckpointId;
use rocferry_store::Progress;
use rocferry_store::cache::Cache;
use rocferry_store::pull::PullOptions;
use serde::Serialize;

use super::access::Access;
use super::bar::{Bar, describe};
use super::names::bytes;
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::format::{Format, render};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 the copy is complete, 2 it is not; pulling again goes on from there."
)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The checkpoint
    #[arg(value_parser = super::checkpoint_id)]
    id: CheckpointId,
    /// Where to: a new or empty directory, or one with an unfinished copy of the same checkpoint
    dir: PathBuf,
    /// A directory with blocks of this machine's checkpoints
    #[arg(long, env = "ROCFERRY_CACHE_DIR", value_name = "DIR")]
    cache: Option<PathBuf>,
    /// How large the cache may be
    #[arg(long, value_name = "SIZE", default_value = "100G", value_parser = bytes)]
    cache_size: u64,
    /// Requests at a time
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    /// Return when all is on the disk
    #[arg(long)]
    durable: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// What was read.
#[derive(Debug, Serialize)]
struct Pulled {
    id: String,
    bytes: u64,
    zero_bytes: u64,
    known_bytes: u64,
    fetched_bytes: u64,
    seconds: f64,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let object = self.access.checkpoint(&store, &self.id).await?;
        let cache = match &self.cache {
            Some(dir) => Some(Arc::new(Cache::open(dir, self.cache_size)?)),
            None => None,
        };
        let options = PullOptions {
            parallel: self.parallel.into(),
            cache,
            durable: self.durable,
            ..PullOptions::default()
        };
        let progress = Progress::new();
        let bar = Bar::show("Reading", &progress);
        let manifest = Arc::new(object.manifest);
        let done = store.pull(manifest, &self.dir, &options, &progress).await;
        drop(bar);
        done?;
        let now = progress.snapshot();
        let pulled = Pulled {
            id: self.id.to_string(),
            bytes: now.done,
            zero_bytes: now.zero,
            known_bytes: now.known,
            fetched_bytes: now.moved,
            seconds: now.elapsed.as_secs_f64(),
        };
        let text = render(self.output, &pulled, || {
            format!("{} in {:.1} s\n", describe(&now), pulled.seconds)
        });
        Ok(Answer {
            text: text?,
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}
