//! A change to the host.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What was done. Paths are those that the host's own programs use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Change {
    /// A folder was made.
    Folder { path: PathBuf },
    /// A file was put there.
    File {
        path: PathBuf,
        /// Of what was put there.
        digest: String,
        /// Name in the folder `aside` of what was there before; `None`: nothing was.
        aside: Option<String>,
    },
    /// Lines were added to a file of the site's.
    Lines {
        path: PathBuf,
        /// There was no such file.
        made: bool,
    },
    /// A runtime was added to a file of containerd's that has been there before.
    Containerd {
        path: PathBuf,
        /// Of the file with the runtime.
        digest: String,
        /// Name of the file as it was in the folder `aside`.
        aside: String,
    },
}

impl Change {
    pub(super) const fn path(&self) -> &PathBuf {
        match self {
            Self::Folder { path }
            | Self::File { path, .. }
            | Self::Lines { path, .. }
            | Self::Containerd { path, .. } => path,
        }
    }
}
