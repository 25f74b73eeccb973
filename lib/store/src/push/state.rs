//! Whether a directory is still what it was.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// What the files below a directory are, as far as it shows without reading them.
#[derive(Debug)]
pub(super) struct TreeState {
    root: PathBuf,
    files: BTreeMap<PathBuf, FileState>,
}

/// Changes with every write, and with every file that takes the place of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    Directory,
    Other {
        inode: (u64, u64),
        size: u64,
        modified: (i64, i64),
        changed: (i64, i64),
    },
}

impl FileState {
    fn of(meta: &Metadata) -> Self {
        if meta.is_dir() {
            // Its files tell.
            return Self::Directory;
        }
        Self::Other {
            inode: (meta.dev(), meta.ino()),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl TreeState {
    /// What is there now. Takes as long as listing all directories: not for threads that must not wait.
    pub(super) fn of(root: &Path) -> Result<Self, StoreError> {
        let mut files = BTreeMap::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(dir) = waiting.pop() {
            let listed = fs::read_dir(&dir).map_err(StoreError::file("Listing", &dir))?;
            for file in listed {
                let path = file.map_err(StoreError::file("Listing", &dir))?.path();
                let meta = fs::symlink_metadata(&path);
                let meta = meta.map_err(StoreError::file("Reading", &path))?;
                if meta.is_dir() {
                    waiting.push(path.clone());
                }
                files.insert(path, FileState::of(&meta));
            }
        }
        let root = root.to_owned();
        Ok(Self { root, files })
    }

    /// Fails unless everything is as it was.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let now = Self::of(&self.root)?;
        let changed = |path: &PathBuf| StoreError::Changed {
            path: path.display().to_string(),
        };
        for (path, state) in &now.files {
            if self.files.get(path) != Some(state) {
                return Err(changed(path));
            }
        }
        match self
            .files
            .keys()
            .find(|path| !now.files.contains_key(*path))
        {
            Some(gone) => Err(changed(gone)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_noticed() {
        let dir = tempfile::tempdir().expect("dir");
        let path = |name: &str| dir.path().join(name);
        let changes: [(&str, &dyn Fn()); 6] = [
            ("written", &|| fs::write(path("a"), "other").expect("write")),
            ("replaced", &|| {
                fs::write(path("new"), "same").expect("write");
                fs::rename(path("new"), path("a")).expect("rename");
            }),
            ("removed", &|| fs::remove_file(path("a")).expect("remove")),
            ("added", &|| fs::write(path("sub/b"), "b").expect("write")),
            ("a directory", &|| {
                fs::create_dir(path("sub/dir")).expect("directory");
            }),
            ("a link", &|| {
                fs::remove_file(path("a")).expect("remove");
                std::os::unix::fs::symlink("/etc/passwd", path("a")).expect("link");
            }),
        ];
        for (what, change) in changes {
            let _ = fs::remove_dir_all(path("sub"));
            fs::create_dir(path("sub")).expect("directory");
            let _ = fs::remove_file(path("a"));
            fs::write(path("a"), "same").expect("write");
            let state = TreeState::of(dir.path()).expect("state");
            state.check().expect("nothing has changed");
            change();
            let error = state.check().expect_err(what);
            assert!(
                matches!(error, StoreError::Changed { .. }),
                "{what}: {error:?}"
            );
        }
    }
}
