//! A file in a folder that is watched.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rocferry_image::manifest::CheckpointId;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::process;

/// Ends of names that archives have.
const ENDS: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd"];

/// What a file is, as long as nobody writes to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// Nanoseconds since 1970.
    modified: i64,
}

impl Identity {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: meta
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(meta.mtime_nsec()),
        }
    }

    /// Of the file that is there now; `None`: there is no plain file.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok()?;
        meta.is_file().then(|| Self::of(&meta))
    }

    /// The name of the checkpoint that it becomes: the same each time, and another one for each file of each node.
    pub(super) fn checkpoint(&self, path: &Path) -> CheckpointId {
        let node = rustix::system::uname();
        let mut hash = blake3::Hasher::new();
        for part in [
            node.nodename().to_bytes(),
            path.as_os_str().as_encoded_bytes(),
            &self.device.to_le_bytes(),
            &self.inode.to_le_bytes(),
            &self.size.to_le_bytes(),
            &self.modified.to_le_bytes(),
        ] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut end = [0; 6];
        hash.finalize_xof().fill(&mut end);
        let modified = u64::try_from(self.modified).unwrap_or(0);
        CheckpointId::new(UNIX_EPOCH + Duration::from_nanos(modified), end)
    }
}

/// Archives in a folder, by their names; none if it is not there.
pub(super) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let named = !name.starts_with('.') && ENDS.iter().any(|end| name.ends_with(end));
        // No links: what they lead to is not in the folder.
        if named && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Opens a file that is the one that was looked at.
pub(super) fn open(path: &Path, identity: &Identity) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)?;
    let same = Identity::of(&file.metadata()?) == *identity;
    Ok(same.then_some(file))
}

/// Has somebody the file open for writing?
pub(super) fn is_written(identity: &Identity) -> bool {
    process::all().into_iter().any(|pid| {
        let own = process::proc(pid);
        process::numbers(&own.join("fd")).into_iter().any(|fd| {
            let Ok(meta) = fs::metadata(own.join("fd").join(fd.to_string())) else {
                return false;
            };
            let same = meta.dev() == identity.device && meta.ino() == identity.inode;
            same && writes(&own.join("fdinfo").join(fd.to_string()))
        })
    })
}

/// By the flags of an open file (`fs/proc/fd.c`, octal).
fn writes(info: &Path) -> bool {
    let text = process::read(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    // O_WRONLY and O_RDWR.
    flags.is_some_and(|flags| flags & 0o3 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn archives_are_told_by_their_names_and_are_plain_files() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["b.tar", "a.tar.zst", ".hidden.tar", "a.txt"] {
            fs::write(dir.path().join(name), name).expect("written");
        }
        fs::create_dir(dir.path().join("folder.tar")).expect("made");
        symlink("/etc/passwd", dir.path().join("link.tar")).expect("linked");
        let found = list(dir.path()).expect("listed");
        let wanted = ["a.tar.zst", "b.tar"].map(|name| dir.path().join(name));
        assert_eq!(found, wanted);
        assert_eq!(
            list(Path::new("/nowhere")).expect("none"),
            [] as [PathBuf; 0]
        );
    }

    #[test]
    fn a_file_that_is_written_is_seen_to_be() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.tar");
        let file = File::create(&path).expect("made");
        let identity = Identity::at(&path).expect("there");
        assert!(is_written(&identity));
        drop(file);
        let reader = open(&path, &identity).expect("opened").expect("the same");
        assert!(!is_written(&identity));
        drop(reader);
        let name = identity.checkpoint(&path);
        assert_eq!(identity.checkpoint(&path), name);
        fs::write(&path, "more").expect("written");
        assert!(open(&path, &identity).expect("opened").is_none());
        let now = Identity::at(&path).expect("there");
        assert_ne!(now.checkpoint(&path), name);
    }
}
