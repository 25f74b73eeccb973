//! What the wrapper tells the script, and the script the wrapper.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ticket::{TicketError, read_bounded, write_whole};

const MAX_FILE: u64 = 64 << 10;

/// What the script has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Plan {
    /// Where the cgroup hierarchy is mounted.
    pub(crate) hierarchy: PathBuf,
    /// Where CRIU is to go.
    pub(crate) refuge: PathBuf,
    /// The wrapper that restores.
    pub(crate) wrapper: Named,
}

/// How far the script has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Stage {
    /// It runs, while CRIU is still in the container's cgroup.
    Begun,
    /// CRIU is out of the way, and the cgroup has been frozen on trial.
    Proven,
    /// The container is frozen for good.
    Frozen,
}

/// What the script has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Proof {
    pub(crate) stage: Stage,
    /// The container's cgroup, once it is known.
    pub(crate) cgroup: Option<PathBuf>,
    /// CRIU.
    pub(crate) criu: Named,
    /// Whether the container's processes were to be killed together for want of memory, before the restore.
    pub(crate) oom_group: Option<bool>,
}

/// A process, which another one with its pid is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Named {
    pub(crate) pid: i32,
    /// When it was started, in ticks since boot.
    pub(crate) started: u64,
}

/// A file in the container's folder.
pub(crate) trait Note: Serialize + DeserializeOwned {
    /// Its name.
    const NAME: &'static str;

    /// Reads it; `None` if it is not there.
    fn read(folder: &Path) -> Result<Option<Self>, TicketError> {
        let path = folder.join(Self::NAME);
        let Some(content) = read_bounded(&path, MAX_FILE)? else {
            return Ok(None);
        };
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|error| TicketError::Damaged {
                path,
                reason: error.to_string(),
            })
    }

    /// Writes it.
    fn write(&self, folder: &Path) -> Result<(), TicketError> {
        let text = serde_json::to_vec(self)
            .map_err(io::Error::other)
            .map_err(TicketError::file("encode", folder.join(Self::NAME)))?;
        write_whole(folder, Self::NAME, &text)
    }
}

impl Note for Plan {
    const NAME: &'static str = "hold-plan.json";
}

impl Note for Proof {
    const NAME: &'static str = "hold-proof.json";
}
