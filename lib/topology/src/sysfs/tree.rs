//! Where the files of a topology tree come from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A tree of small files. Both calls stop at their limit, so that a hostile tree costs no memory.
pub(super) trait Tree {
    /// Names in a directory, in any order, `limit` at most.
    fn list(&self, dir: &Path, limit: usize) -> io::Result<Vec<OsString>>;

    /// The first `limit` bytes of a file.
    fn read(&self, file: &Path, limit: u64) -> io::Result<Vec<u8>>;
}

/// `O_NONBLOCK` of Linux: opening a pipe does not wait for a writer. Files of sysfs do not care.
const NON_BLOCKING: i32 = 0o4000;

/// The file system.
pub(super) struct Disk;

impl Tree for Disk {
    fn list(&self, dir: &Path, limit: usize) -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?
            .take(limit)
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect()
    }

    fn read(&self, file: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(NON_BLOCKING).open(file)?;
        file.take(limit).read_to_end(&mut content)?;
        Ok(content)
    }
}

/// Contents by path; `None` is a file that may not be read. Directories are those that the paths name.
impl Tree for BTreeMap<PathBuf, Option<Vec<u8>>> {
    fn list(&self, dir: &Path, limit: usize) -> io::Result<Vec<OsString>> {
        let mut names: Vec<OsString> = Vec::new();
        // Paths are ordered by component: all that is below `dir` follows it without gaps.
        let below = self
            .range(dir.to_owned()..)
            .map_while(|(path, _)| path.strip_prefix(dir).ok());
        for name in below.filter_map(|path| path.iter().next()) {
            if names.last().is_some_and(|last| last == name) {
                continue;
            }
            if names.len() == limit {
                break;
            }
            names.push(name.to_owned());
        }
        if names.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(names)
    }

    fn read(&self, file: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let content = self.get(file).ok_or(io::ErrorKind::NotFound)?;
        let content = content.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(content[..content.len().min(limit)].to_vec())
    }
}
