//! What can be wrong with the object of a manifest.

use rocferry_image::manifest::{CheckpointId, ManifestError};
use thiserror::Error;

use super::{ObjectError, SignError, TrustError};
use crate::seal::SealError;

/// A manifest that cannot be read, or must not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The object is not what it should be.
    #[error("The manifest of {checkpoint} cannot be read")]
    Object {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What is wrong with it.
        source: ObjectError,
    },
    /// Its keys cannot be had, or do not open it.
    #[error("The manifest of {checkpoint} cannot be opened")]
    Seal {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why not.
        source: SealError,
    },
    /// Its signature is wrong.
    #[error("The manifest of {checkpoint} cannot be trusted")]
    Signature {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What is wrong with it.
        source: SignError,
    },
    /// It is in order, but not to be used.
    #[error("The manifest of {checkpoint} is refused")]
    Untrusted {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What was expected and what was found.
        source: TrustError,
    },
    /// What is in it breaks the rules.
    #[error("The manifest of {checkpoint} is invalid")]
    Manifest {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Which one.
        source: ManifestError,
    },
}

impl EnvelopeError {
    /// Trying again does not help.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Seal { source, .. } => source.is_permanent(),
            _ => true,
        }
    }
}
