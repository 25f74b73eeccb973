//! What can go wrong with archives.

use std::io;

use thiserror::Error;

use super::{Engine, Refusal};

/// What a caller's side says.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An archive that cannot be read, or must not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be read from where it is.
    #[error("The archive cannot be read at byte {at}")]
    Io {
        /// Bytes that were read, after decompression.
        at: u64,
        /// Why not.
        source: io::Error,
    },
    /// It ends too early.
    #[error("The archive is cut off after {at} bytes")]
    Truncated {
        /// Bytes that were read, after decompression.
        at: u64,
    },
    /// Something follows its end.
    #[error("The archive ends at byte {at}, but something follows")]
    Trailing {
        /// Bytes before that, after decompression.
        at: u64,
    },
    /// It grows out of all proportion.
    #[error("{consumed} bytes become more than {produced}: that is no checkpoint")]
    Expansion {
        /// Bytes that were read.
        consumed: u64,
        /// Most bytes that may become of them.
        produced: u64,
    },
    /// A header makes no sense.
    #[error("The header at byte {at} is refused: {refusal}")]
    Header {
        /// Where it is, after decompression.
        at: u64,
        /// What is wrong with it.
        refusal: Refusal,
    },
    /// A member must not be there, or not like this.
    #[error("Member {member:?} is refused: {refusal}")]
    Member {
        /// Its name, or its beginning.
        member: String,
        /// What is wrong with it.
        refusal: Refusal,
    },
    /// It is no checkpoint.
    #[error("The archive has no {member}: it is no checkpoint of a container")]
    Missing {
        /// What is not there.
        member: &'static str,
    },
    /// Who takes the members fails.
    #[error("Member {member:?} cannot be taken")]
    Sink {
        /// The member.
        member: String,
        /// Why not.
        source: BoxError,
    },
}

/// An archive that cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// It cannot be written to where it should be.
    #[error("The archive cannot be written")]
    Io {
        /// Why not.
        source: io::Error,
    },
    /// A member's content cannot be had.
    #[error("{member:?} cannot be read")]
    Source {
        /// The member.
        member: String,
        /// Why not.
        source: BoxError,
    },
    /// A member's content has another length than its entry says.
    #[error("{member:?} has another size than the {expected} bytes that it should have")]
    Length {
        /// The member.
        member: String,
        /// Bytes by its entry.
        expected: u64,
    },
    /// A member cannot be in an archive.
    #[error("{member:?} cannot be in an archive: {refusal}")]
    Member {
        /// The member.
        member: String,
        /// What is wrong with it.
        refusal: Refusal,
    },
    /// There is no checkpoint to write.
    #[error("The checkpoint has no {member}")]
    Missing {
        /// What is not there.
        member: &'static str,
    },
    /// The engine needs what is not known.
    #[error("{engine} needs {what}, and the checkpoint does not say it")]
    Unknown {
        /// For whom the archive would be.
        engine: Engine,
        /// What is missing.
        what: &'static str,
    },
    /// The engine would lose something.
    #[error("{engine} cannot restore {member:?}: {reason}")]
    Unsupported {
        /// For whom the archive would be.
        engine: Engine,
        /// The member.
        member: String,
        /// Why not.
        reason: &'static str,
    },
    /// A tar in the checkpoint that must be rewritten cannot be read.
    #[error("{member:?} cannot be converted")]
    Nested {
        /// The tar.
        member: String,
        /// What is wrong with it.
        source: Box<ReadError>,
    },
}

/// As much of a name as an error should hold.
pub(super) fn excerpt(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(120).collect()
}
