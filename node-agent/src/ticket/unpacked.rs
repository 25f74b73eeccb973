//! Which volumes of a pod have been filled from its checkpoint.
//!
//! A volume is filled once, before the first container of its pod: by the time the next one is made, or a failed one is
//! made again, others have it open. The record says `begun` before the first file is made and `done` when all are on the
//! disk. One that is begun and not done is filled again; nobody has seen it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::TicketError;
use crate::process;

/// Version of the format that is written, and the newest that is read.
pub(super) const UNPACKED_VERSION: u32 = 1;

/// `TMPFS_MAGIC`: what lies there does not outlive a reboot.
const TMPFS: u64 = 0x0102_1994;

/// What has been filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unpacked {
    version: u32,
    filled: Vec<Filled>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Filled {
    archive: PathBuf,
    place: Place,
    done: bool,
}

/// A folder of this machine, which another one at its path is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Place {
    path: PathBuf,
    inode: u64,
    /// Of a folder in memory alone: the device, and the boot in which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<(u64, String)>,
}

impl Place {
    /// The folder at this path.
    ///
    /// # Errors
    /// It is none, or a link.
    pub fn of(path: &Path) -> Result<Self, TicketError> {
        let metadata = fs::symlink_metadata(path).map_err(TicketError::file("look at", path))?;
        if !metadata.is_dir() {
            let error = std::io::Error::from(std::io::ErrorKind::NotADirectory);
            return Err(TicketError::file("fill", path)(error));
        }
        let kind = rustix::fs::statfs(path).map_err(TicketError::file("look at", path))?;
        let memory = match u64::try_from(kind.f_type) {
            Ok(TMPFS) => {
                let boot = process::boot_id();
                let boot = boot.map_err(TicketError::file("read", "boot_id"))?;
                Some((metadata.dev(), boot))
            }
            _ => None,
        };
        Ok(Self {
            path: path.to_owned(),
            inode: metadata.ino(),
            memory,
        })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Default for Unpacked {
    fn default() -> Self {
        Self {
            version: UNPACKED_VERSION,
            filled: Vec::new(),
        }
    }
}

impl Unpacked {
    /// Has this archive been put there, all of it?
    #[must_use]
    pub fn is_done(&self, archive: &Path, place: &Place) -> bool {
        let mut filled = self.filled.iter();
        filled.any(|one| one.done && one.archive == archive && one.place == *place)
    }

    /// Says so, or that it was begun.
    pub fn note(&mut self, archive: &Path, place: &Place, done: bool) {
        let other = |one: &Filled| one.archive != archive || one.place.path != place.path;
        self.filled.retain(other);
        self.filled.push(Filled {
            archive: archive.to_owned(),
            place: place.clone(),
            done,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_filled_is_not_filled() {
        let dir = tempfile::tempdir().expect("folder");
        let place = Place::of(dir.path()).expect("a folder");
        let archive = Path::new("/a.tar");
        let mut unpacked = Unpacked::default();
        assert!(!unpacked.is_done(archive, &place));
        unpacked.note(archive, &place, false);
        assert!(!unpacked.is_done(archive, &place));
        unpacked.note(archive, &place, true);
        assert!(unpacked.is_done(archive, &place));
        assert!(!unpacked.is_done(Path::new("/b.tar"), &place));
        // Begun anew, in the place of another one that was there.
        unpacked.note(archive, &place, false);
        assert!(!unpacked.is_done(archive, &place));
        assert_eq!(unpacked.filled.len(), 1);
    }

    #[test]
    fn another_folder_of_the_same_path_is_not_filled() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("volume");
        fs::create_dir(&path).expect("made");
        let mut unpacked = Unpacked::default();
        let archive = Path::new("/a.tar");
        unpacked.note(archive, &Place::of(&path).expect("a folder"), true);
        // Kept, so that its inode is not used again.
        fs::rename(&path, dir.path().join("old")).expect("moved");
        fs::create_dir(&path).expect("made");
        assert!(!unpacked.is_done(archive, &Place::of(&path).expect("a folder")));
        std::os::unix::fs::symlink(dir.path().join("old"), dir.path().join("link")).expect("link");
        Place::of(&dir.path().join("link")).expect_err("a link");
        Place::of(&dir.path().join("none")).expect_err("nothing");
    }

    #[test]
    fn memory_of_another_boot_is_empty() {
        let shm = Path::new("/dev/shm");
        let Ok(
            place @ Place {
                memory: Some(_), ..
            },
        ) = Place::of(shm)
        else {
            panic!("/dev/shm is memory");
        };
        let mut unpacked = Unpacked::default();
        let archive = Path::new("/a.tar");
        let mut before = place.clone();
        before.memory.as_mut().expect("memory").1 = "another".to_owned();
        unpacked.note(archive, &before, true);
        assert!(!unpacked.is_done(archive, &place));
        unpacked.note(archive, &place, true);
        assert!(unpacked.is_done(archive, &place));
    }
}
