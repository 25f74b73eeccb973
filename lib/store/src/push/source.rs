//! What is to be stored.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::Readable;

/// A file, directory or link of a checkpoint that is being stored.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// Path in the checkpoint: relative, without `.` and `..`.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last change, milliseconds since 1970.
    pub modified_ms: u64,
    /// What it is.
    pub content: NewContent,
}

/// What a [`NewEntry`] consists of.
#[derive(Clone, Debug)]
pub enum NewContent {
    /// A directory.
    Directory,
    /// A symbolic link to this path.
    Symlink(String),
    /// A regular file.
    Regular(Source, Readable),
}

/// Where the bytes of a regular file are.
#[derive(Clone, Debug)]
pub enum Source {
    /// In this file, which is opened when it is read, and maybe again later. No part of the path may be a
    /// symbolic link.
    Path(PathBuf),
    /// In an open file, from this byte on.
    Open(Arc<File>, u64),
}

impl Source {
    /// The file, and the byte in it where this one begins.
    pub(super) fn open(&self) -> io::Result<(Arc<File>, u64)> {
        match self {
            Self::Path(path) => {
                // Nothing is followed, and nothing but a file is waited for: who writes in that directory may
                // have put something else in its place.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let resolve = ResolveFlags::NO_SYMLINKS;
                let file = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?;
                let file = File::from(file);
                match file.metadata()?.is_file() {
                    true => Ok((Arc::new(file), 0)),
                    false => Err(io::Error::other("it is no regular file")),
                }
            }
            Self::Open(file, start) => Ok((Arc::clone(file), *start)),
        }
    }
}
