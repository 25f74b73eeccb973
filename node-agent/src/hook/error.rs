//! Why the GPUs of a container are not written down.

use std::io;

use rocferry_topology::ReadError;
use thiserror::Error;

use crate::ticket::TicketError;
use crate::wrapper::WrapperError;

/// The hook has not done its work.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HookError {
    /// Standard input cannot be read.
    #[error("Cannot read the container's state from standard input")]
    Input(#[source] io::Error),
    /// More than any runtime writes.
    #[error("The container's state on standard input has more than {limit} bytes")]
    TooLarge {
        /// The bound, in bytes.
        limit: u64,
    },
    /// No state of a container.
    #[error("Standard input holds no state of a container: {reason}")]
    State {
        /// What is wrong.
        reason: String,
    },
    /// The container's specification cannot be read.
    #[error("Cannot read the container's specification")]
    Bundle(#[from] WrapperError),
    /// The machine's GPUs cannot be told.
    #[error("The container is given render nodes, but the machine's GPUs cannot be read")]
    Topology(#[from] ReadError),
    /// The record cannot be written or removed.
    #[error("The record of the container's GPUs cannot be kept")]
    Record(#[from] TicketError),
}
