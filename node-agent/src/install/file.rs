//! Files that are there as a whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::InstallError;

/// Larger than any program or configuration of ours, or in whose place ours come.
const LIMIT: u64 = 256 << 20;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A file with this content and these permissions.
    File { bytes: Vec<u8>, mode: u32 },
    /// A symbolic link.
    Link(PathBuf),
}

impl Content {
    /// What is there; `None`: nothing.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, InstallError> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(InstallError::file("look at", path)(error)),
        };
        if meta.is_symlink() {
            let target = fs::read_link(path).map_err(InstallError::file("read", path))?;
            return Ok(Some(Self::Link(target)));
        }
        if !meta.is_file() {
            let path = path.to_owned();
            return Err(InstallError::Kind { path });
        }
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes));
        read.map_err(InstallError::file("read", path))?;
        if bytes.len() as u64 > LIMIT {
            return Err(InstallError::TooLarge {
                path: path.to_owned(),
                limit: LIMIT,
            });
        }
        let mode = meta.permissions().mode() & 0o7777;
        Ok(Some(Self::File { bytes, mode }))
    }

    /// Puts it at a path in one step, and makes that last.
    pub(super) fn write(&self, path: &Path) -> Result<(), InstallError> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default();
        let mut hidden = std::ffi::OsString::from(".rocferry-");
        hidden.push(name);
        let temporary = folder.join(hidden);
        let failed = |error| InstallError::file("write", path)(error);
        // What a crash has left.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let made = match self {
            Self::File { bytes, mode } => make_file(&temporary, bytes, *mode),
            Self::Link(target) => std::os::unix::fs::symlink(target, &temporary),
        };
        let moved = made.and_then(|()| fs::rename(&temporary, path));
        if let Err(error) = moved {
            // The first error is the one to report.
            let _ = fs::remove_file(&temporary);
            return Err(failed(error));
        }
        sync_folder(folder)
    }

    /// Tells it from others. Permissions do not count: an administrator may change them.
    pub(super) fn digest(&self) -> String {
        match self {
            Self::File { bytes, .. } => blake3::hash(bytes).to_hex().to_string(),
            Self::Link(target) => format!("link to {}", target.display()),
        }
    }
}

fn make_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Makes names in a folder last.
pub(super) fn sync_folder(folder: &Path) -> Result<(), InstallError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(InstallError::file("sync", folder))
}

/// Removes a file for good; none is as good.
pub(super) fn remove(path: &Path) -> Result<(), InstallError> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder(path.parent().unwrap_or(Path::new("/"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(InstallError::file("remove", path)(error)),
    }
}
