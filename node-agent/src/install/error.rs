//! What can go wrong on the way.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An installation that cannot be made or undone. What was done before is in the record.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A file.
    #[error("Cannot {operation} {}", .path.display())]
    File {
        /// `read`, `write`, …
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is larger than anything that belongs there.
    #[error("{} is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// Neither a file nor a link, where a file should be.
    #[error("{} is neither a file nor a link", .path.display())]
    Kind {
        /// What is in the way.
        path: PathBuf,
    },
    /// What one needs to install is not there.
    #[error("{} is not there: name the folder with the programs and the plugin with --from", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file that cannot be understood.
    #[error("{}: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A program does not do its part.
    #[error("{program}: {reason}")]
    Program {
        /// The program.
        program: String,
        /// What is wrong.
        reason: String,
    },
    /// CRIU and the plugin do not go together. Nothing was changed.
    #[error("CRIU does not work with the new plugin, nothing was changed: {reason}")]
    Trial {
        /// The end of CRIU's log.
        reason: String,
    },
    /// The runtime's configuration would say something else about other things too. It is as it was.
    #[error(
        "With the new runtime, containerd's configuration differs elsewhere as well, it is as it was: {difference}"
    )]
    Differs {
        /// The first difference.
        difference: String,
    },
    /// Another one is at it.
    #[error("Another installation is under way")]
    Busy,
}

impl InstallError {
    pub(super) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            operation,
            path,
            source,
        }
    }
}
