//! What was changed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::error::InstallError;
use super::file::{Content, sync_folder};

const NAME: &str = "install.json";
const ASIDE: &str = "aside";
const LOCK: &str = "install.lock";
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored {
    version: u32,
    changes: Vec<Change>,
}

/// The record of a host, held by one at a time.
#[derive(Debug)]
pub(super) struct Record {
    folder: PathBuf,
    changes: Vec<Change>,
    /// Unlocked when it is dropped.
    _lock: Lock,
}

#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    /// A child that was just forked may still have the file: closing alone would not end the lock.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl Record {
    /// Opens it; an empty one if there is none.
    pub(super) fn open(folder: &Path) -> Result<Self, InstallError> {
        let made = fs::create_dir_all(folder.join(ASIDE));
        made.map_err(InstallError::file("make", folder))?;
        let path = folder.join(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(InstallError::file("open", &path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(InstallError::Busy),
            Err(errno) => return Err(InstallError::file("lock", &path)(errno.into())),
        }
        let path = folder.join(NAME);
        let changes = match Content::read(&path)? {
            None => Vec::new(),
            Some(Content::Link(_)) => return Err(InstallError::Kind { path }),
            Some(Content::File { bytes, .. }) => parse(&path, &bytes)?,
        };
        Ok(Self {
            folder: folder.to_owned(),
            changes,
            _lock: Lock(lock),
        })
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What was done to a path.
    pub(super) fn of(&self, path: &Path) -> Option<&Change> {
        self.changes.iter().find(|change| change.path() == path)
    }

    /// Writes down what is about to be done.
    pub(super) fn set(&mut self, change: Change) -> Result<(), InstallError> {
        match self
            .changes
            .iter_mut()
            .find(|old| old.path() == change.path())
        {
            Some(old) => *old = change,
            None => self.changes.push(change),
        }
        self.save()
    }

    /// Forgets what was undone.
    pub(super) fn forget(&mut self, path: &Path) -> Result<(), InstallError> {
        self.changes.retain(|change| change.path() != path);
        self.save()
    }

    /// Keeps what is at a path. Its name.
    pub(super) fn keep(&self, path: &Path, content: &Content) -> Result<String, InstallError> {
        let name = path
            .display()
            .to_string()
            .trim_matches('/')
            .replace('/', "-");
        content.write(&self.folder.join(ASIDE).join(&name))?;
        Ok(name)
    }

    /// What was kept under a name.
    pub(super) fn kept(&self, name: &str) -> Result<Option<Content>, InstallError> {
        Content::read(&self.aside(name))
    }

    /// Where it is kept.
    pub(super) fn aside(&self, name: &str) -> PathBuf {
        // It comes from a file: no way out of the folder.
        let name = Path::new(name).file_name().unwrap_or_default();
        self.folder.join(ASIDE).join(name)
    }

    fn save(&self) -> Result<(), InstallError> {
        let path = self.folder.join(NAME);
        let stored = Stored {
            version: VERSION,
            changes: self.changes.clone(),
        };
        let bytes = serde_json::to_vec_pretty(&stored).map_err(|error| InstallError::Damaged {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        Content::File { bytes, mode: 0o600 }.write(&path)
    }

    /// Removes it when nothing is changed any more.
    pub(super) fn close(self) -> Result<(), InstallError> {
        if !self.changes.is_empty() {
            return Ok(());
        }
        for (name, is_folder) in [(NAME, false), (ASIDE, true)] {
            let path = self.folder.join(name);
            let removed = match is_folder {
                true => fs::remove_dir(&path),
                false => fs::remove_file(&path),
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(InstallError::file("remove", &path)(error));
                }
                _ => {}
            }
        }
        sync_folder(&self.folder)
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Change>, InstallError> {
    let damaged = |reason| InstallError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let stored: Stored =
        serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if stored.version != VERSION {
        return Err(damaged(format!(
            "it has version {}, this program knows {VERSION}",
            stored.version
        )));
    }
    Ok(stored.changes)
}
