//! The directory that a checkpoint is written to.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rocferry_image::manifest::{Content, FileEntry, Manifest};
use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid,
};

use crate::StoreError;
use crate::aligned::fits;

/// Name of the file that marks a copy that is not complete. It holds the name of the checkpoint.
pub const MARKER: &str = ".rocferry-pull";

/// The directory. Nothing in it is reached through a symbolic link.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    path: PathBuf,
    /// Whether files may be there already.
    resumed: bool,
    /// Whether owners can be given.
    owners: bool,
    /// Whether the file system has not yet refused to write past the page cache.
    direct: AtomicBool,
    /// The mark, locked: nobody else writes here.
    mark: Option<File>,
}

impl Tree {
    /// Makes the directory, its mark and all directories in it.
    pub(super) fn prepare(path: &Path, manifest: &Manifest) -> Result<Self, StoreError> {
        if manifest.files.iter().any(|file| file.path == MARKER) {
            let reason = "unfinished copies are marked by that name".to_owned();
            let path = MARKER.to_owned();
            return Err(StoreError::Unfit { path, reason });
        }
        std::fs::create_dir_all(path).map_err(StoreError::file("Making", path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty());
        let mut tree = Self {
            root: root.map_err(|error| StoreError::file("Opening", path)(error.into()))?,
            path: path.to_owned(),
            resumed: false,
            owners: rustix::process::geteuid().is_root(),
            direct: AtomicBool::new(true),
            mark: None,
        };
        tree.resumed = tree.mark(manifest)?;
        for file in &manifest.files {
            if file.content == Content::Directory {
                tree.directory(&file.path)?;
            }
        }
        Ok(tree)
    }

    /// Whether files may be there already.
    pub(super) const fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Marks the copy as not complete, and keeps others away. True if it was marked already.
    fn mark(&mut self, manifest: &Manifest) -> Result<bool, StoreError> {
        let name = manifest.id.as_str();
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = self.open(MARKER, flags);
        let mut file = file.map_err(self.failed("Making", MARKER))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let path = self.path.clone();
                return Err(StoreError::Busy { path });
            }
            Err(error) => return Err(self.failed("Locking", MARKER)(error.into())),
        }
        let meta = file.metadata().map_err(self.failed("Reading", MARKER))?;
        // Whoever had the lock before may have finished: then this mark is none any more.
        if !meta.is_file() || std::os::unix::fs::MetadataExt::nlink(&meta) == 0 {
            return Err(self.occupied(manifest));
        }
        let mut found = String::new();
        let read = (&file).take(64).read_to_string(&mut found);
        read.map_err(self.failed("Reading", MARKER))?;
        let resumed = found == name;
        if !resumed {
            // Part of the name is from a first try that did nothing else.
            let mut listed = std::fs::read_dir(&self.path)
                .map_err(StoreError::file("Listing", &self.path))?
                .filter(|file| !file.as_ref().is_ok_and(|file| file.file_name() == MARKER));
            if !name.starts_with(&found) || listed.next().is_some() {
                if found.is_empty() {
                    // It was made just now, in a directory that is somebody else's.
                    let removed = rustix::fs::unlinkat(&self.root, MARKER, AtFlags::empty());
                    removed.map_err(|error| self.failed("Removing", MARKER)(error.into()))?;
                }
                return Err(self.occupied(manifest));
            }
            let written = file.rewind().and_then(|()| file.write_all(name.as_bytes()));
            written.map_err(self.failed("Writing", MARKER))?;
        }
        self.mark = Some(file);
        Ok(resumed)
    }

    fn occupied(&self, manifest: &Manifest) -> StoreError {
        StoreError::Occupied {
            path: self.path.clone(),
            checkpoint: manifest.id.clone(),
        }
    }

    /// Opens a file in the directory; with [`OFlags::CREATE`] it is made.
    fn open(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let mode = match flags.contains(OFlags::CREATE) {
            true => Mode::RUSR | Mode::WUSR,
            false => Mode::empty(),
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        // Not blocking: a FIFO in a file's place is not waited for.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat2(&self.root, path, flags, mode, resolve)?;
        Ok(file.into())
    }

    /// The directory that a path is in, and its last part.
    fn parent<'a>(&self, path: &'a str) -> io::Result<(File, &'a str)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let parent = self.open(parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok((parent, name))
    }

    fn directory(&self, path: &str) -> Result<(), StoreError> {
        let made = self.parent(path).and_then(|(parent, name)| {
            match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
        made.map_err(self.failed("Making", path))
    }

    /// Opens a regular file to write and read, with its size. It is made if it is not there.
    pub(super) fn file(&self, entry: &FileEntry) -> Result<File, StoreError> {
        let path = &entry.path;
        let file = self.open(path, OFlags::RDWR | OFlags::CREATE);
        let file = file.map_err(self.failed("Making", path))?;
        if self.regular(&file, path)?.len() != entry.size() {
            let sized = file.set_len(entry.size());
            sized.map_err(self.failed("Writing", path))?;
        }
        Ok(file)
    }

    /// What the file system says of a file, which must be a regular one.
    fn regular(&self, file: &File, path: &str) -> Result<Metadata, StoreError> {
        let meta = file.metadata().map_err(self.failed("Reading", path))?;
        if !meta.is_file() {
            let reason = "something else is in its place".to_owned();
            let path = path.to_owned();
            return Err(StoreError::Unfit { path, reason });
        }
        Ok(meta)
    }

    /// Writes to a file that is there, past the page cache if that is wanted and can be.
    pub(super) fn write(
        &self,
        entry: &FileEntry,
        bytes: &[u8],
        position: u64,
        direct: bool,
    ) -> Result<(), StoreError> {
        let direct = direct && fits(bytes.len(), position) && self.direct.load(Ordering::Relaxed);
        if direct && self.write_direct(&entry.path, bytes, position)? {
            return Ok(());
        }
        let written = self.file(entry)?.write_all_at(bytes, position);
        written.map_err(self.failed("Writing", &entry.path))
    }

    /// Writes past the page cache. False if the file system cannot do that.
    fn write_direct(&self, path: &str, bytes: &[u8], position: u64) -> Result<bool, StoreError> {
        let cannot = |error: &io::Error| {
            error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
        };
        let written = match self.open(path, OFlags::WRONLY | OFlags::DIRECT) {
            Ok(file) => {
                self.regular(&file, path)?;
                file.write_all_at(bytes, position)
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) if cannot(&error) => {
                self.direct.store(false, Ordering::Relaxed);
                Ok(false)
            }
            Err(error) => Err(self.failed("Writing", path)(error)),
        }
    }

    /// Gives a file its mode, owner and time, when its content is there.
    fn complete(&self, entry: &FileEntry) -> Result<(), StoreError> {
        let done = self.open(&entry.path, OFlags::RDONLY).and_then(|file| {
            if self.owners {
                let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
                rustix::fs::fchown(&file, Some(uid), Some(gid))?;
            }
            // After the owner: giving a file away takes some bits from it.
            rustix::fs::fchmod(&file, Mode::from_raw_mode(entry.mode))?;
            rustix::fs::futimens(&file, &times(entry.modified_ms))?;
            Ok(())
        });
        done.map_err(self.failed("Finishing", &entry.path))
    }

    /// Makes a symbolic link. Last of all: nothing is written through it.
    fn link(&self, entry: &FileEntry, target: &str) -> Result<(), StoreError> {
        let made = self.parent(&entry.path).and_then(|(parent, name)| {
            match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            rustix::fs::symlinkat(target, &parent, name)?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            if self.owners {
                let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
                rustix::fs::chownat(&parent, name, Some(uid), Some(gid), flags)?;
            }
            rustix::fs::utimensat(&parent, name, &times(entry.modified_ms), flags)?;
            Ok(())
        });
        made.map_err(self.failed("Making", &entry.path))
    }

    /// Links, modes, owners and times, and the end of the mark. Until then every file can be written.
    pub(super) fn finish(&self, manifest: &Manifest, durable: bool) -> Result<(), StoreError> {
        for file in &manifest.files {
            if let Content::Symlink(target) = &file.content {
                self.link(file, target)?;
            }
        }
        // What is in a directory before the directory: its time and its rights are then final.
        for file in manifest.files.iter().rev() {
            if !matches!(file.content, Content::Symlink(_)) {
                self.complete(file)?;
            }
        }
        if durable {
            let synced = rustix::fs::syncfs(&self.root);
            synced.map_err(|error| self.failed("Syncing", ".")(error.into()))?;
        }
        let removed = rustix::fs::unlinkat(&self.root, MARKER, AtFlags::empty());
        removed.map_err(|error| self.failed("Removing", MARKER)(error.into()))?;
        if durable {
            let synced = rustix::fs::fsync(&self.root);
            synced.map_err(|error| self.failed("Syncing", ".")(error.into()))?;
        }
        Ok(())
    }

    fn failed(&self, operation: &'static str, path: &str) -> impl FnOnce(io::Error) -> StoreError {
        StoreError::file(operation, self.path.join(path))
    }
}

impl Drop for Tree {
    /// Closing the mark would not end the lock while a child process that was just forked still has it.
    fn drop(&mut self) {
        if let Some(mark) = &self.mark {
            let _ = rustix::fs::flock(mark, FlockOperation::Unlock);
        }
    }
}

fn times(modified_ms: u64) -> Timestamps {
    // Below the year 10000, which fits.
    let seconds = i64::try_from(modified_ms / 1000).unwrap_or(i64::MAX);
    let nanoseconds = (modified_ms % 1000 * 1_000_000).cast_signed();
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
