//! Mounts that a killed restore has left below a folder. Removing files there would reach into what is mounted: CRIU keeps
//! the host's own cgroups in its work directory.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use super::error::WrapperError;

const LIST: &str = "/proc/self/mountinfo";

/// Takes away everything that is mounted below a folder, or on it.
pub(crate) fn detach_below(folder: &Path) -> Result<(), WrapperError> {
    // As the kernel writes it.
    let folder = match fs::canonicalize(folder) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(WrapperError::file("find", folder)(error)),
    };
    for point in points_below(&folder)?.iter().rev() {
        unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(WrapperError::file("unmount", point))?;
    }
    match points_below(&folder)?.pop() {
        None => Ok(()),
        Some(point) => Err(WrapperError::file("unmount", point)(io::Error::from(
            io::ErrorKind::ResourceBusy,
        ))),
    }
}

/// Removes a folder, and nothing that is mounted in it. None is as good.
pub(crate) fn remove_tree(folder: &Path) -> Result<(), WrapperError> {
    detach_below(folder)?;
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(WrapperError::file("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

fn points_below(folder: &Path) -> Result<Vec<PathBuf>, WrapperError> {
    let list = fs::read(LIST).map_err(WrapperError::file("read", LIST))?;
    let lines = list.split(|byte| *byte == b'\n').filter_map(point);
    Ok(lines.filter(|point| point.starts_with(folder)).collect())
}

/// The mount point in a line, whose spaces and the like are written in octal.
fn point(line: &[u8]) -> Option<PathBuf> {
    let word = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(byte) => {
                path.push(byte);
                rest = &after[3..];
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_as_they_are_written() {
        let of = |line: &str| point(line.as_bytes());
        assert_eq!(
            of("45 72 0:43 / /a/b rw - tmpfs none rw"),
            Some("/a/b".into())
        );
        assert_eq!(
            of(r"45 72 0:43 / /a\040b\134\011 rw - tmpfs none rw"),
            Some("/a b\\\t".into())
        );
        assert_eq!(of(r"45 72 0:43 / /a\4 rw - tmpfs"), Some(r"/a\4".into()));
        assert_eq!(of("45 72"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn what_is_not_mounted_is_just_removed() {
        let dir = tempfile::tempdir().expect("folder");
        let folder = dir.path().join("x");
        remove_tree(&folder).expect("none");
        fs::create_dir_all(folder.join("y")).expect("folder");
        remove_tree(&folder).expect("removed");
        assert!(!folder.exists());
    }
}
