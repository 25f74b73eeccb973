//! Entries from a directory.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::state::TreeState;
use super::{Cut, NewContent, NewEntry, Readable, Source, Upload};
use crate::StoreError;
use crate::pull::MARKER;

/// Says where the files of a checkpoint are to be cut.
pub trait Cuts: Send + Sync {
    /// The cuts of a file, ascending. `path` is relative to the checkpoint.
    fn cuts(&self, path: &str) -> Vec<Cut>;

    /// Whether the cuts of a file are known. While a directory is [followed](super::Follower), one of which they are
    /// not is left for later: blocks that are cut otherwise in the end would have been sent for nothing.
    fn known(&self, path: &str) -> bool {
        let _ = path;
        true
    }
}

/// No cuts: blocks are aligned to the start of their file.
#[derive(Clone, Copy, Debug)]
pub struct NoCuts;

impl Cuts for NoCuts {
    fn cuts(&self, _path: &str) -> Vec<Cut> {
        Vec::new()
    }
}

/// Everything below a directory, parents before what is in them; sockets, pipes and devices are refused.
/// Nothing is followed. Takes as long as reading all directories: not for threads that must not wait.
///
/// # Errors
/// [`StoreError::File`], [`StoreError::Unfit`].
pub fn tree(root: &Path, cuts: &dyn Cuts) -> Result<Vec<NewEntry>, StoreError> {
    // The way there may have links; from there on nothing is followed.
    let root = &fs::canonicalize(root).map_err(StoreError::file("Opening", root))?;
    if root.join(MARKER).exists() {
        return Err(StoreError::Unfit {
            path: root.display().to_string(),
            reason: "it is a copy of a checkpoint that was never completed; pull it again"
                .to_owned(),
        });
    }
    let mut entries = Vec::new();
    let mut waiting = vec![String::new()];
    while let Some(dir) = waiting.pop() {
        let path = root.join(&dir);
        let listed = fs::read_dir(&path).map_err(StoreError::file("Listing", &path))?;
        for file in listed {
            let file = file.map_err(StoreError::file("Listing", &path))?;
            let name = file.file_name().into_string().map_err(|name| {
                let path = path.join(name).display().to_string();
                let reason = "its name is not UTF-8".to_owned();
                StoreError::Unfit { path, reason }
            })?;
            let relative = match dir.is_empty() {
                true => name,
                false => format!("{dir}/{name}"),
            };
            let meta = file
                .metadata()
                .map_err(StoreError::file("Reading", file.path()))?;
            if meta.is_dir() {
                waiting.push(relative.clone());
            }
            entries.push(entry(&file.path(), relative, &meta, cuts)?);
        }
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

fn entry(
    file: &Path,
    path: String,
    meta: &Metadata,
    cuts: &dyn Cuts,
) -> Result<NewEntry, StoreError> {
    let unfit = |reason: String| StoreError::Unfit {
        path: path.clone(),
        reason,
    };
    let content = if meta.is_dir() {
        NewContent::Directory
    } else if meta.is_file() {
        let cuts = Readable::complete(meta.len(), cuts.cuts(&path));
        let readable = cuts.map_err(|late| unfit(late.to_string()))?;
        NewContent::Regular(Source::Path(file.to_owned()), readable)
    } else if meta.is_symlink() {
        let target = fs::read_link(file).map_err(StoreError::file("Reading", file))?;
        let target = target.into_os_string().into_string();
        NewContent::Symlink(target.map_err(|_| unfit("its target is not UTF-8".to_owned()))?)
    } else {
        return Err(unfit(
            "it is neither a file nor a directory nor a link".to_owned(),
        ));
    };
    let milliseconds = i128::from(meta.mtime()) * 1000 + i128::from(meta.mtime_nsec() / 1_000_000);
    Ok(NewEntry {
        path,
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        modified_ms: u64::try_from(milliseconds.max(0)).unwrap_or(0),
        content,
    })
}

impl Upload {
    /// Adds everything below a directory. If anything in it changes until the upload is finished, that fails
    /// with [`StoreError::Changed`]: what was read at different times makes no checkpoint.
    ///
    /// # Errors
    /// Those of [`tree`].
    pub async fn add_tree(
        &mut self,
        root: &Path,
        cuts: impl Cuts + 'static,
    ) -> Result<(), StoreError> {
        let root = root.to_owned();
        let listed = tokio::task::spawn_blocking(move || {
            // First the state: what changes from here on is noticed.
            let state = TreeState::of(&root)?;
            Ok::<_, StoreError>((state, tree(&root, &cuts)?))
        });
        let (state, entries) = listed.await??;
        for entry in entries {
            self.add(entry)?;
        }
        self.trees.push(state);
        Ok(())
    }
}
