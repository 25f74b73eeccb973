//! What can go wrong with the journal.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The journal cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A file of it.
    #[error("Cannot {what} {}", .path.display())]
    File {
        /// `read`, `write`, `make`, `lock`, `remove`.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A record that makes no sense.
    #[error("{} is no record of the journal: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A record that a newer agent has written.
    #[error("{} has version {version}, this agent knows {known}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The newest that is known.
        known: u32,
    },
    /// Another agent works on it.
    #[error("{name} is being worked on: {work}")]
    Busy {
        /// The container.
        name: String,
        /// What is done.
        work: String,
    },
}

impl JournalError {
    /// Trying again makes no sense.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        !matches!(self, Self::Busy { .. })
    }
}
