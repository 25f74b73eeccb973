//! What can go wrong with images.

use std::io;

use thiserror::Error;

use super::super::{ReadError, WriteError};

/// An image that cannot be read or written, or must not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// It cannot be read from where it is, or written to where it should be.
    #[error("The image cannot be read or written")]
    Io {
        /// Why not.
        #[from]
        source: io::Error,
    },
    /// The tar of its layout is refused.
    #[error("The layout of the image is refused")]
    Layout {
        /// What is wrong with it.
        source: ReadError,
    },
    /// It is compressed as a whole.
    #[error("The layout of the image is compressed as a whole: decompress it first")]
    Compressed,
    /// Something of the layout is not there.
    #[error("The image has no {member:?}")]
    Missing {
        /// What is not there.
        member: String,
    },
    /// A blob is not what its name says.
    #[error("Blob {digest} has the content of {actual}")]
    Digest {
        /// Its name.
        digest: String,
        /// The digest of its content.
        actual: String,
    },
    /// A blob has another size than what refers to it says.
    #[error("Blob {digest} has {actual} bytes, {expected} expected")]
    Size {
        /// Its name.
        digest: String,
        /// Bytes by the descriptor.
        expected: u64,
        /// Bytes found.
        actual: u64,
    },
    /// A file of the layout that cannot be used.
    #[error("{member:?} of the image cannot be used: {reason}")]
    Document {
        /// The file.
        member: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An image of something else.
    #[error("The image is no checkpoint of a container: {reason}")]
    NoCheckpoint {
        /// How that shows.
        reason: String,
    },
    /// Its layer is refused.
    #[error("The layer of the image is refused")]
    Archive {
        /// What is wrong with it.
        source: ReadError,
    },
    /// The archive in it cannot be made.
    #[error("The layer of the image cannot be made")]
    Write {
        /// Why not.
        source: WriteError,
    },
}
