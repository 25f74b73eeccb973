//! Which archives were taken: `STATE/archives/CHECKPOINT.json`.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rocferry_image::manifest::CheckpointId;
use serde::{Deserialize, Serialize};

use super::file::Identity;
use crate::error::Error;
use crate::ticket::{read_bounded, remove_synced, write_whole};

/// Far more than any.
const MAX_FILE: u64 = 64 << 10;

/// An archive that is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Note {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What it is.
    pub(super) identity: Identity,
    /// When it was stored, in milliseconds since 1970.
    pub(super) taken_ms: u64,
}

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    folder: PathBuf,
}

impl Notes {
    pub(super) fn new(state: &Path) -> Self {
        Self {
            folder: state.join("archives"),
        }
    }

    /// Is this one taken? A note that cannot be read is none: the store knows as well.
    pub(super) fn get(&self, id: &CheckpointId) -> Option<Note> {
        let path = self.folder.join(name(id));
        let text = read_bounded(&path, MAX_FILE).ok().flatten()?;
        serde_json::from_slice(&text).ok()
    }

    /// Notes one.
    pub(super) fn put(&self, id: &CheckpointId, note: &Note) -> Result<(), Error> {
        let failed = |source| Error::WriteFile {
            path: self.folder.clone(),
            source,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(failed)?;
        let text = serde_json::to_vec(note).map_err(|error| failed(error.into()))?;
        write_whole(&self.folder, &name(id), &text)
            .map_err(|error| failed(std::io::Error::other(error)))
    }

    /// Forgets those whose archives are gone or are other ones now.
    pub(super) fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.filter_map(Result::ok) {
            let file = entry.file_name();
            let id = file.to_str().and_then(|name| name.strip_suffix(".json"));
            let Some(id) = id.and_then(|id| id.parse::<CheckpointId>().ok()) else {
                continue;
            };
            let there = self
                .get(&id)
                .is_some_and(|note| Identity::at(&note.path).as_ref() == Some(&note.identity));
            if !there && let Err(error) = remove_synced(&self.folder, &name(&id)) {
                tracing::debug!(%error, "A note stays");
            }
        }
    }
}

fn name(id: &CheckpointId) -> String {
    format!("{id}.json")
}
