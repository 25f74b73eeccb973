//! A file that gets its name when it is whole.

use std::fs::File;
use std::io::{self, Write};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::backend::Existing;

/// How names of such files begin. No object's name begins with a dot.
pub(super) const PREFIX: &str = ".tmp-";

/// A file without its final name yet; dropping it removes it.
#[derive(Debug)]
pub(super) struct Temporary {
    dir: OwnedFd,
    name: String,
    file: File,
    /// The temporary name is gone.
    moved: bool,
}

impl Temporary {
    /// An empty one in `dir`.
    pub(super) fn create(dir: OwnedFd) -> Result<Self, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = format!("{PREFIX}{:032x}", fastrand::u128(..));
            match rustix::fs::openat(&dir, name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
                Ok(fd) => {
                    return Ok(Self {
                        dir,
                        name,
                        file: fd.into(),
                        moved: false,
                    });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Adds bytes at the end.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Adds bytes at the end, past the page cache if they and the file so far are aligned for that and the
    /// file system can.
    pub(super) fn write_direct(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let direct = self.set_direct(true).is_ok();
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Not at this alignment, or only a part was written and the rest is not aligned.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => break,
                Err(error) => return Err(error),
            }
        }
        if direct {
            self.set_direct(false)?;
        }
        self.write(bytes)
    }

    fn set_direct(&self, direct: bool) -> Result<(), Errno> {
        let mut flags = rustix::fs::fcntl_getfl(&self.file)?;
        flags.set(OFlags::DIRECT, direct);
        rustix::fs::fcntl_setfl(&self.file, flags)
    }

    /// Gives it its name, durably. `false`: it has to be kept apart from one that exists.
    pub(super) fn commit(mut self, name: &str, existing: Existing) -> io::Result<bool> {
        self.file.sync_all()?;
        match existing {
            Existing::Replace => {
                rustix::fs::renameat(&self.dir, self.name.as_str(), &self.dir, name)?;
                self.moved = true;
            }
            Existing::Keep => {
                if !self.take_free_name(name)? {
                    return Ok(false);
                }
            }
        }
        sync_dir(&self.dir)?;
        Ok(true)
    }

    fn take_free_name(&mut self, name: &str) -> io::Result<bool> {
        let own = self.name.as_str();
        match rustix::fs::linkat(&self.dir, own, &self.dir, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            // An NFS client that lost the answer asks again and is told that the name is taken: by us.
            Err(Errno::EXIST) => Ok(rustix::fs::fstat(&self.file)?.st_nlink > 1),
            // File systems without hard links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
                let flags = RenameFlags::NOREPLACE;
                match rustix::fs::renameat_with(&self.dir, own, &self.dir, name, flags) {
                    Ok(()) => {
                        self.moved = true;
                        Ok(true)
                    }
                    Err(Errno::EXIST) => Ok(false),
                    Err(errno) => Err(errno.into()),
                }
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.moved {
            // What cannot be removed now is swept by a later list.
            let _ = rustix::fs::unlinkat(&self.dir, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Makes names in a directory durable.
pub(super) fn sync_dir(dir: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::fsync(dir) {
        // Some network file systems do it by themselves and refuse to be asked.
        Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno),
    }
}
