//! What can be wrong with a manifest.

use thiserror::Error;

use super::{InvalidId, PackId};
use crate::FormatError;

/// A manifest that must not be used, or not be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Not the protobuf message that it should be, or of a later rocferry.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// More bytes than any machine's checkpoint needs.
    #[error("Manifest of {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// Largest length that is read or written.
        limit: u64,
    },
    /// Blocks of another size than this code's.
    #[error("Manifest with blocks of {found} bytes, {expected} expected")]
    BlockSize {
        /// Size found.
        found: u32,
        /// Size expected.
        expected: u32,
    },
    /// A field that there may be once is there again.
    #[error("{message}: field {field} is there twice")]
    Twice {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field that belongs to another kind of entry.
    #[error("{message}: field {field} does not belong there")]
    Unexpected {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
    /// Bytes that are no identifier.
    #[error("{message}: {field} is no identifier")]
    Id {
        /// The message.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// What the parser says.
        source: InvalidId,
    },
    /// A text that cannot be used.
    #[error("{field} of {bytes} bytes: {reason}")]
    Text {
        /// The field.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It names itself as the one before it.
    #[error("The checkpoint is its own parent")]
    OwnParent,
    /// A path that leads out of the checkpoint's directory, or to nothing that can be made.
    #[error("Path {path:?}: {reason}")]
    Path {
        /// Its beginning.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A pack in the list that makes no sense there.
    #[error("Pack {pack} {reason}")]
    Pack {
        /// The pack.
        pack: PackId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A span that contradicts itself.
    #[error("Span {span} of {path:?}: {reason}")]
    Span {
        /// The file, its beginning.
        path: String,
        /// Which one of its spans.
        span: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A block that cannot be where it is said to be.
    #[error("Block {block} of span {span} of {path:?}: {reason}")]
    Block {
        /// The file, its beginning.
        path: String,
        /// Which one of its spans.
        span: usize,
        /// Which one of the span's blocks.
        block: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The sizes of all files together exceed 64 bits.
    #[error("The sizes of the files add up to more than 64 bits hold")]
    SumOverflow,
}

/// As much of a path as an error should hold.
pub(super) fn excerpt(path: &str) -> String {
    path.chars().take(120).collect()
}
