//! `image push`.

use std::path::PathBuf;

use rocferry_image::manifest::{Binding, CheckpointId};
use rocferry_store::Snapshot;
use rocferry_store::pack::Compression;
use rocferry_store::push::{Facts, PushOptions, Upload};
use serde::Serialize;

use super::access::{Access, signer};
use super::bar::{Bar, describe};
use super::cuts::GpuCuts;
use crate::cli::{Answer, Exit};
use crate::error::{Error, causes};
use crate::format::{Format, render};

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 the checkpoint is stored, 2 it is not.")]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    storing: Storing,
    /// The directory
    dir: PathBuf,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// How a checkpoint is stored, whatever it comes from.
#[derive(Debug, clap::Args)]
pub(crate) struct Storing {
    /// The checkpoint before it, for people
    #[arg(long, value_name = "ID", value_parser = super::checkpoint_id)]
    parent: Option<CheckpointId>,
    /// Whom it may be restored for: NAMESPACE/NAMESPACE-UID/POD/CONTAINER; without it, anybody
    #[arg(long, value_name = "BINDING", value_parser = binding)]
    bind: Option<Binding>,
    /// Sign with this ed25519 key (PEM, PKCS #8)
    #[arg(long, env = "ROCFERRY_SIGN_KEY", value_name = "FILE")]
    sign: Option<PathBuf>,
    /// How hard to compress: 0 not at all, 1 fast, up to 19
    #[arg(long, value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..=19))]
    compression: i32,
}

/// What was stored.
#[derive(Debug, Serialize)]
struct Stored {
    id: String,
    bytes: u64,
    zero_bytes: u64,
    known_bytes: u64,
    sent_bytes: u64,
    packs: u64,
    files: u64,
    seconds: f64,
}

impl Args {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open_or_make().await?;
        let cuts = GpuCuts::of(&self.dir)?;
        let facts = self.storing.facts()?;
        let mut upload = store.push(self.storing.options()).await?;
        let bar = Bar::show("Storing", upload.progress());
        if let Err(error) = upload.add_tree(&self.dir, cuts).await {
            drop(bar);
            upload.abort().await;
            return Err(error.into());
        }
        finish(upload, facts, bar, self.output).await
    }
}

impl Storing {
    pub(crate) fn options(&self) -> PushOptions {
        PushOptions {
            compression: match self.compression {
                0 => Compression::Off,
                level => Compression::Zstd(level),
            },
            ..PushOptions::default()
        }
    }

    pub(crate) fn facts(&self) -> Result<Facts, Error> {
        Ok(Facts {
            parent: self.parent.clone(),
            binding: self.bind.clone().unwrap_or(Binding::Free),
            signer: self.sign.as_deref().map(signer).transpose()?,
            ..Facts::default()
        })
    }
}

/// Waits until all is stored, and says so.
pub(super) async fn finish(
    upload: Upload,
    facts: Facts,
    bar: Bar,
    output: Format,
) -> Result<Answer, Error> {
    let progress = upload.progress().clone();
    let stored = upload.finish(facts).await;
    drop(bar);
    let manifest = stored?;
    let now = progress.snapshot();
    let stored = Stored::of(&manifest.id, &now);
    Ok(Answer {
        text: render(output, &stored, || format!("{}\n", manifest.id))?,
        notes: match output {
            Format::Table => vec![format!("{} in {:.1} s", describe(&now), stored.seconds)],
            Format::Json | Format::Yaml => Vec::new(),
        },
        exit: Exit::Yes,
    })
}

impl Stored {
    fn of(id: &CheckpointId, now: &Snapshot) -> Self {
        Self {
            id: id.to_string(),
            bytes: now.done,
            zero_bytes: now.zero,
            known_bytes: now.known,
            sent_bytes: now.moved,
            packs: now.packs,
            files: now.files,
            seconds: now.elapsed.as_secs_f64(),
        }
    }
}

fn binding(text: &str) -> Result<Binding, String> {
    let parts: Vec<_> = text.split('/').collect();
    let [namespace, namespace_uid, pod, container] = parts.as_slice() else {
        return Err("NAMESPACE/NAMESPACE-UID/POD/CONTAINER is expected".to_owned());
    };
    if parts.iter().any(|part| part.is_empty()) {
        return Err("no part of it may be empty".to_owned());
    }
    let binding = Binding::Pod {
        namespace: (*namespace).to_owned(),
        namespace_uid: (*namespace_uid).to_owned(),
        pod: (*pod).to_owned(),
        container: (*container).to_owned(),
    };
    // Now, and not when all is sent.
    binding.validate().map_err(|error| causes(&error))?;
    Ok(binding)
}
