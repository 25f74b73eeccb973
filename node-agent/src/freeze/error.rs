//! What can go wrong with a cgroup.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// A cgroup does not do what it should.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// The process has no cgroup of version 2.
    #[error("Process {pid} is in no cgroup of version 2")]
    NoCgroup {
        /// The process.
        pid: u32,
    },
    /// Others would be frozen too.
    #[error("Cgroup {} holds other processes too, for instance {other}", .path.display())]
    Shared {
        /// The cgroup.
        path: PathBuf,
        /// One that is not meant.
        other: u32,
    },
    /// A file of the cgroup cannot be read or written.
    #[error("Cannot {what} {}", .path.display())]
    File {
        /// `read`, `write`, `make`, `remove`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// It did not happen in time.
    #[error("Cgroup {} has not {wanted} after {} s", .path.display(), .limit.as_secs())]
    Late {
        /// The cgroup.
        path: PathBuf,
        /// `stopped`, `gone on (is a cgroup above it frozen?)`, `become empty`.
        wanted: &'static str,
        /// How long was waited.
        limit: Duration,
    },
}

impl FreezeError {
    /// Trying again makes no sense.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        !matches!(self, Self::Late { .. })
    }
}
