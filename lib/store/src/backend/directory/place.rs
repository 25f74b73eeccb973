//! Where in the directory an object lies, and how one gets there without following links.

use std::path::PathBuf;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::failure::Failure;
use super::temporary::sync_dir;
use crate::{Key, Kind, StoreName};

/// What checkpoints hold is nobody else's business.
const DIR_MODE: Mode = Mode::RWXU;

/// A tenant's part of a directory.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    name: StoreName,
}

impl Place {
    pub(super) fn new(root: PathBuf, name: &StoreName) -> Self {
        Self {
            root,
            name: name.clone(),
        }
    }

    /// Name of the object's file in its directory.
    pub(super) fn file_name(key: &Key) -> String {
        match key {
            Key::Store => Kind::Store.dir().to_owned(),
            key => key.id(),
        }
    }

    /// Directory among a kind's own that an object lies in: packs are many, so that they are spread over
    /// 256 of them by the first two digits.
    pub(super) fn fan(key: &Key) -> Option<String> {
        match key {
            Key::Pack(id) => Some(id.to_string().chars().take(2).collect()),
            _ => None,
        }
    }

    /// Names of the directories from the root to the objects of a kind.
    fn path_of(&self, kind: Kind) -> Vec<String> {
        let mut path = vec![self.name.to_string()];
        if kind != Kind::Store {
            path.push(kind.dir().to_owned());
        }
        path
    }

    /// The directory of the kind; none if it is not there yet.
    pub(super) fn find_kind(&self, kind: Kind) -> Result<Option<OwnedFd>, Failure> {
        self.walk(&self.path_of(kind), false)
    }

    /// The directory that the object would lie in; none if it is not there yet.
    pub(super) fn find(&self, key: &Key) -> Result<Option<OwnedFd>, Failure> {
        let mut path = self.path_of(key.kind());
        path.extend(Self::fan(key));
        self.walk(&path, false)
    }

    /// Like [`Self::find`], and makes what is missing.
    pub(super) fn make(&self, key: &Key) -> Result<OwnedFd, Failure> {
        let mut path = self.path_of(key.kind());
        path.extend(Self::fan(key));
        self.walk(&path, true)?.ok_or(Errno::NOENT.into())
    }

    /// Step by step, since no flag of openat(2) itself stops at a link in the middle of a path, and
    /// openat2(2) is refused by some containers' seccomp filters.
    fn walk(&self, path: &[String], make: bool) -> Result<Option<OwnedFd>, Failure> {
        let mut dir = match rustix::fs::open(&self.root, dir_flags(), Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(Failure::NoRoot(self.root.clone())),
            Err(errno) => return Err(errno.into()),
        };
        for name in path {
            dir = match open_dir(&dir, name) {
                Ok(next) => next,
                Err(Errno::NOENT) if make => {
                    match rustix::fs::mkdirat(&dir, name.as_str(), DIR_MODE) {
                        Ok(()) => sync_dir(&dir)?,
                        // Somebody else was faster.
                        Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    open_dir(&dir, name)?
                }
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
        }
        Ok(Some(dir))
    }
}

fn dir_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// A directory in `dir`; a link to one is an error.
pub(super) fn open_dir(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, dir_flags() | OFlags::NOFOLLOW, Mode::empty())
}
