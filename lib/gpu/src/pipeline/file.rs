//! The file stage.

mod fd;
mod stream;

use std::time::Duration;

pub use fd::FdFile;
use rustix::io::Errno;
pub use stream::StreamFile;

/// In which order a file can be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// At any offsets, several at once.
    Any,
    /// From front to back, one piece at a time.
    Sequential,
}

/// A file of which pieces are read or written. Used by several threads at once, unless its order is
/// [`Order::Sequential`].
pub trait FileEngine: Sync {
    /// The order that it needs.
    fn order(&self) -> Order;

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`FileError`]: also when the file ends before.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError>;

    /// Writes all of `buf` from `offset` on.
    ///
    /// # Errors
    /// [`FileError`]: also when only part of it could be written.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), FileError>;

    /// From which offset on zeros need not be written, because nothing was ever written there and
    /// [`FileEngine::set_len`] makes it read as zeros; `None` when zeros must be written like other bytes.
    ///
    /// # Errors
    /// [`FileError`].
    fn holes_from(&self) -> Result<Option<u64>, FileError>;

    /// Gives the file its final length, once everything is written. Does nothing where a file has none.
    ///
    /// # Errors
    /// [`FileError`].
    fn set_len(&self, len: u64) -> Result<(), FileError>;
}

/// Why a file stage failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The kernel refused.
    #[error("{op} of {file} at byte {offset} failed")]
    Io {
        /// Read, write or set length.
        op: &'static str,
        /// The file's name.
        file: String,
        /// Where in it.
        offset: u64,
        /// What the kernel answered.
        #[source]
        errno: Errno,
    },
    /// The file ends too early.
    #[error("File {file} ends at byte {offset}, {missing} bytes too early for this piece")]
    ShortRead {
        /// The file's name.
        file: String,
        /// Where it ends.
        offset: u64,
        /// Bytes that are not there.
        missing: usize,
    },
    /// The kernel took only part of the bytes, and then nothing more.
    #[error(
        "Only part of the bytes went into {file}: it stopped at byte {offset}, {missing} short"
    )]
    ShortWrite {
        /// The file's name.
        file: String,
        /// Where it stopped.
        offset: u64,
        /// Bytes that were not taken.
        missing: usize,
    },
    /// Whoever is at the other end of a stream gives or takes nothing any more.
    #[error("{op} of {file} has stood still for {limit:?} at byte {offset}")]
    Stalled {
        /// Read or write.
        op: &'static str,
        /// The stream's name.
        file: String,
        /// Where in it.
        offset: u64,
        /// How long nothing has moved.
        limit: Duration,
    },
    /// A stream was asked for something that it has passed.
    #[error("Stream {file} is at byte {position} and cannot go back to byte {offset}")]
    OutOfOrder {
        /// The stream's name.
        file: String,
        /// Where it is.
        position: u64,
        /// Where it was to be.
        offset: u64,
    },
}

impl FileError {
    /// Where in the file it happened.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match self {
            Self::Io { offset, .. }
            | Self::ShortRead { offset, .. }
            | Self::ShortWrite { offset, .. }
            | Self::Stalled { offset, .. }
            | Self::OutOfOrder { offset, .. } => *offset,
        }
    }
}
