//! One archive into the store.

use std::path::Path;

use rocferry_image::manifest::CheckpointId;
use rocferry_store::archive::ReadError;
use rocferry_store::interchange::{Form, InterchangeError};
use rocferry_store::push::{Facts, PushOptions};
use rocferry_store::{Store, StoreError};

use super::file::{Identity, open};
use crate::error::{Error, causes};
use crate::image::{StoreKeys, signer};
use crate::settings::ArchiveRule;

/// What became of it.
#[derive(Debug)]
pub(super) enum Taken {
    /// It is stored, now or since before.
    Stored { bytes: u64, sent: u64 },
    /// It has changed meanwhile: once more, later.
    Changed,
    /// It is no checkpoint, or not a whole one.
    Damaged(String),
}

/// Stores an archive under this name, unless it is stored.
pub(super) async fn take(
    rule: &ArchiveRule,
    path: &Path,
    identity: &Identity,
    id: &CheckpointId,
    spool: &Path,
) -> Result<Taken, Error> {
    let keys = StoreKeys::of_files(
        &rule.tenant,
        &rule.identity,
        &rule.recipients,
        &rule.key_file,
    );
    let store = keys.open_or_make(&rule.store).await?;
    if is_stored(&store, id, &keys).await? {
        return Ok(Taken::Stored { bytes: 0, sent: 0 });
    }
    let opened = open(path, identity).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let Some(file) = opened else {
        return Ok(Taken::Changed);
    };
    let signer = rule.sign.as_deref().map(signer).transpose()?;
    let mut upload = store.push(PushOptions::default()).await?;
    let archive = match upload.add_archive(file, Form::Archive, spool).await {
        Ok(archive) => archive,
        Err(error) => {
            upload.abort().await;
            let same = Identity::at(path).as_ref() == Some(identity);
            return match error {
                _ if !same => Ok(Taken::Changed),
                InterchangeError::Read(error) if is_damage(&error) => {
                    Ok(Taken::Damaged(causes(&error)))
                }
                error => Err(error.into()),
            };
        }
    };
    let facts = Facts {
        id: Some(id.clone()),
        source: archive.source,
        signer,
        ..Facts::default()
    };
    // What was read must be what is there: only then nobody wrote to it meanwhile.
    if Identity::at(path).as_ref() != Some(identity) {
        upload.abort().await;
        return Ok(Taken::Changed);
    }
    let progress = upload.progress().clone();
    upload.finish(facts).await?;
    let now = progress.snapshot();
    Ok(Taken::Stored {
        bytes: now.done,
        sent: now.moved,
    })
}

async fn is_stored(store: &Store, id: &CheckpointId, keys: &StoreKeys) -> Result<bool, Error> {
    match keys.checkpoint(store, id).await {
        Ok(_) => Ok(true),
        Err(Error::Store(StoreError::NoCheckpoint { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Is it the archive's fault? A disk that cannot be read may be well again tomorrow.
fn is_damage(error: &ReadError) -> bool {
    match error {
        // A decompressor's errors have no number.
        ReadError::Io { source, .. } => source.raw_os_error().is_none(),
        ReadError::Sink { .. } => false,
        _ => true,
    }
}
