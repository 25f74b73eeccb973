//! Why a transfer failed.

use std::fmt;
use std::time::Duration;

use rocferry_topology::UserGpuId;

use super::{CopyError, Direction, FileError};

/// The first error of a transfer. It names the object: `bo` is its position in the list of objects that was
/// handed in, `offset` the first byte, within the object, of the piece at hand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The image file could not be read.
    #[error("Cannot read BO {bo} of GPU {gpu} from byte {offset} on")]
    Read {
        /// The GPU.
        gpu: UserGpuId,
        /// The object.
        bo: usize,
        /// Where in it.
        offset: u64,
        /// File, place and reason.
        #[source]
        source: FileError,
    },
    /// The image file could not be written.
    #[error("Cannot write BO {bo} of GPU {gpu} from byte {offset} on")]
    Write {
        /// The GPU.
        gpu: UserGpuId,
        /// The object.
        bo: usize,
        /// Where in it.
        offset: u64,
        /// File, place and reason.
        #[source]
        source: FileError,
    },
    /// The file could not be given its final length.
    #[error("Cannot finish the file of GPU {gpu}")]
    Length {
        /// The GPU.
        gpu: UserGpuId,
        /// File and reason.
        #[source]
        source: FileError,
    },
    /// A block is not what the index says.
    #[error("Block {block} of BO {bo} of GPU {gpu} is damaged: its BLAKE3 is not the recorded one")]
    Mismatch {
        /// The GPU.
        gpu: UserGpuId,
        /// The object.
        bo: usize,
        /// Number of the block within the object.
        block: u64,
    },
    /// The copy engine does not work.
    #[error("Cannot set up the copy engine of GPU {gpu}")]
    Staging {
        /// The GPU.
        gpu: UserGpuId,
        /// What failed.
        #[source]
        source: CopyError,
    },
    /// An object could not be made known to the copy engine, or taken away from it again.
    #[error("Cannot reach BO {bo} of GPU {gpu} with the copy engine")]
    Attach {
        /// The GPU.
        gpu: UserGpuId,
        /// The object.
        bo: usize,
        /// What failed.
        #[source]
        source: CopyError,
    },
    /// A copy could not be started or failed.
    #[error("Cannot copy {direction} BO {bo}{} of GPU {gpu} at byte {offset}", Others(*others))]
    Copy {
        /// Which way.
        direction: Direction,
        /// The GPU.
        gpu: UserGpuId,
        /// The object.
        bo: usize,
        /// How many other small objects the copy also held; it may be the fault of any.
        others: usize,
        /// Where in it.
        offset: u64,
        /// What failed.
        #[source]
        source: CopyError,
    },
    /// A copy did not end.
    #[error(
        "Copy {direction} BO {bo} of GPU {gpu} at byte {offset} has not ended within {limit:?}"
    )]
    TimedOut {
        /// Which way.
        direction: Direction,
        /// The GPU.
        gpu: UserGpuId,
        /// The object.
        bo: usize,
        /// How many other small objects the copy also held; it may be the fault of any.
        others: usize,
        /// Where in it.
        offset: u64,
        /// The time-out.
        limit: Duration,
    },
    /// The request makes no sense.
    #[error("Cannot transfer BO {bo} of GPU {gpu}: {what}")]
    BadRequest {
        /// The GPU.
        gpu: UserGpuId,
        /// The object.
        bo: usize,
        /// Why.
        what: &'static str,
    },
    /// A thread panicked.
    #[error("A thread of the transfer for GPU {gpu} panicked: {message}")]
    Panicked {
        /// The GPU.
        gpu: UserGpuId,
        /// What it said.
        message: String,
    },
    /// Everything went well, but not everything was done: an error of this module.
    #[error("Transfer for GPU {gpu} ended after {done} of {wanted} bytes")]
    Incomplete {
        /// The GPU.
        gpu: UserGpuId,
        /// Bytes copied.
        done: u64,
        /// Bytes asked for.
        wanted: u64,
    },
}

/// The part of a message that says how many other objects there were.
struct Others(usize);

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            others => write!(f, " (or one of {others} small ones after it)"),
        }
    }
}
