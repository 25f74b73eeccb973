//! What can go wrong with a pod.

use std::path::PathBuf;

use thiserror::Error;

use crate::freeze::FreezeError;
use crate::pod::PodRecordError;
use crate::runtime::RuntimeError;
use crate::ticket::InvalidName;

/// A pod cannot be found, or is not what it should be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PodError {
    /// There is none.
    #[error("No pod {name} has a running container on this node")]
    NotFound {
        /// As the user named it.
        name: String,
    },
    /// The name fits several.
    #[error("{name} may be pod {first} or {second}")]
    Ambiguous {
        /// As the user named it.
        name: String,
        /// UID of one.
        first: String,
        /// UID of another.
        second: String,
    },
    /// A container is on its way.
    #[error("Container {container} of the pod is {state}, not running")]
    Starting {
        /// Its name.
        container: String,
        /// `created`, `creating`.
        state: String,
    },
    /// Two containers run under one name, or one has none.
    #[error("Containers {first} and {second} of the pod are both named {name:?}")]
    Twice {
        /// The name.
        name: String,
        /// Id of one.
        first: String,
        /// Id of the other.
        second: String,
    },
    /// The containers have no cgroup in common.
    #[error("Container {container} is in {}, not right below the pod's {}", .cgroup.display(), .pod.display())]
    Cgroup {
        /// Its id.
        container: String,
        /// Its cgroup.
        cgroup: PathBuf,
        /// The pod's.
        pod: PathBuf,
    },
    /// The containers' cgroups lie at the top, so that there is none of the pod alone.
    #[error("Container {container} is in {}: the pod has no cgroup (version 2) of its own", .cgroup.display())]
    NoCgroup {
        /// Its id.
        container: String,
        /// Its cgroup.
        cgroup: PathBuf,
    },
    /// A process in the pod's cgroup that no container accounts for.
    #[error("Process {pid} ({what}) is in the pod's cgroup, and in none of its running containers")]
    Stranger {
        /// The process.
        pid: u32,
        /// Its name.
        what: String,
    },
    /// What a mount is of cannot be told.
    #[error("The volumes of the pod cannot be told: {reason}")]
    Volume {
        /// Which one, and why.
        reason: String,
    },
    /// The answering of probes did not begin.
    #[error("Connections to the pod cannot be kept away: {reason}")]
    Answering {
        /// What was said.
        reason: String,
    },
    /// A name that is no name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The description of the checkpoint.
    #[error(transparent)]
    Record(#[from] PodRecordError),
    /// The runtime.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A cgroup.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
}

impl PodError {
    /// Trying again makes no sense.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Starting { .. } | Self::Stranger { .. } | Self::Answering { .. } => false,
            Self::Runtime(error) => error.is_permanent(),
            Self::Freeze(error) => error.is_permanent(),
            _ => true,
        }
    }
}
