//! What can go wrong with tickets and fences.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A ticket or fence that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TicketError {
    /// A file or folder cannot be worked with.
    #[error("Cannot {verb} {}", .path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A folder that others can write to, or that somebody else owns.
    #[error("{} is not safe: it belongs to user {owner} and has mode {mode:o}; it must be the agent's own, mode 700", .path.display())]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// A file that is larger than any ticket.
    #[error("{} has more than {limit} bytes", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound, in bytes.
        limit: u64,
    },
    /// Not what is written there by us.
    #[error("{} is damaged: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Written by a later version.
    #[error("{} has version {version}; this program knows version {known}: update it, or have the file written anew", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// Somebody else works with this ticket.
    #[error("{} is in use: another restore of this container has not ended", .path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// There is no ticket to change.
    #[error("No ticket for the {key}")]
    None {
        /// Which container.
        key: String,
    },
    /// A step that the ticket's state does not allow.
    #[error("The ticket of the {key} is {state}, and cannot become {wanted}")]
    State {
        /// Which container.
        key: String,
        /// State that it is in.
        state: &'static str,
        /// State that was asked for.
        wanted: &'static str,
    },
}

impl TicketError {
    /// Trying again without a change by somebody is of no use.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::Busy { .. } | Self::File { .. })
    }

    pub(crate) fn file<E: Into<io::Error>>(
        verb: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |source| Self::File {
            verb,
            path,
            source: source.into(),
        }
    }
}
