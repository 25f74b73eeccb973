//! Putting a file in place.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::change::Change;
use super::error::InstallError;
use super::file::{Content, sync_folder};
use super::host::Host;
use super::record::Record;

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is new.
    New,
    /// Ours was there with this content.
    Same,
    /// Ours was there, with another content.
    Replaced,
    /// Somebody else's was there, and is kept.
    MovedAside,
}

/// Makes a folder with all above it.
pub(super) fn folder(host: &Host, record: &mut Record, path: &Path) -> Result<(), InstallError> {
    let real = host.real(path);
    if real.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        folder(host, record, parent)?;
    }
    record.set(Change::Folder {
        path: path.to_owned(),
    })?;
    match fs::DirBuilder::new().mode(0o755).create(&real) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(InstallError::file("make", &real)(error))
        }
        _ => sync_folder(real.parent().unwrap_or(Path::new("/"))),
    }
}

/// Puts a file at a path; what was there, if it is not ours, is kept.
pub(super) fn put(
    host: &Host,
    record: &mut Record,
    path: &Path,
    new: &Content,
) -> Result<Put, InstallError> {
    if let Some(parent) = path.parent() {
        folder(host, record, parent)?;
    }
    let real = host.real(path);
    let found = Content::read(&real)?;
    let ours = match record.of(path) {
        Some(Change::File { digest, aside, .. }) => Some((digest.clone(), aside.clone())),
        _ => None,
    };
    let is_ours = |content: &Content| {
        let digest = content.digest();
        digest == new.digest() || ours.as_ref().is_some_and(|(ours, _)| *ours == digest)
    };
    let (aside, put) = match (&found, &ours) {
        (Some(content), Some((_, aside))) if is_ours(content) => {
            let same = content.digest() == new.digest();
            (aside.clone(), if same { Put::Same } else { Put::Replaced })
        }
        (Some(content), _) => (Some(record.keep(&real, content)?), Put::MovedAside),
        // Ours was removed: what it replaced still waits.
        (None, Some((_, aside))) => (aside.clone(), Put::New),
        (None, None) => (None, Put::New),
    };
    record.set(Change::File {
        path: path.to_owned(),
        digest: new.digest(),
        aside,
    })?;
    if found.as_ref() != Some(new) {
        new.write(&real)?;
    }
    Ok(put)
}
