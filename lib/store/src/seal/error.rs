//! What can go wrong with keys.

use rocferry_image::manifest::DataKeyId;
use thiserror::Error;

use super::RandomError;
use crate::Key;
use crate::backend::BackendError;
use crate::envelope::ObjectError;

/// Keys that cannot be had, or that do not open what they should.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SealError {
    /// No random bytes.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The store does not do what it should.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// An object of the store that cannot be read.
    #[error("{key} cannot be used")]
    Object {
        /// The object.
        key: Key,
        /// What is wrong with it.
        source: ObjectError,
    },
    /// A sealed piece that its key does not open.
    #[error("{piece} is damaged, or is not what it is said to be")]
    Piece {
        /// What it should be.
        piece: String,
    },
    /// Not an age recipient.
    #[error("Line {line} of the recipients is none: {reason}")]
    Recipient {
        /// Number of the line, from 1.
        line: usize,
        /// What age says.
        reason: &'static str,
    },
    /// Not an age identity. What it is instead is not repeated: it may be a secret.
    #[error("Line {line} of the identities is none: {reason}")]
    Identity {
        /// Number of the line, from 1.
        line: usize,
        /// What age says.
        reason: &'static str,
    },
    /// Not a key of 32 bytes.
    #[error("Key file of {bytes} bytes; 32 bytes or 64 hexadecimal digits are expected")]
    KeyFile {
        /// Length of the file.
        bytes: usize,
    },
    /// A data key was to be wrapped for nobody.
    #[error("No recipient and no key file: nobody could read what is sealed")]
    NoRecipients,
    /// A store was to be made that whoever makes it could not read.
    #[error(
        "Only recipients are given: with an identity or a key file, what is sealed can be read again"
    )]
    NoIdentity,
    /// Wrapping failed.
    #[error("Data key {key} cannot be wrapped: {reason}")]
    Wrap {
        /// The data key.
        key: DataKeyId,
        /// What age says.
        reason: String,
    },
    /// The store is sealed and nothing is there to open it with.
    #[error(
        "The store is sealed (data key {key}, wrapped for {wrapped_for}); no identity and no key file is given"
    )]
    NoKey {
        /// The data key.
        key: DataKeyId,
        /// Who can unwrap it.
        wrapped_for: String,
    },
    /// What is given opens another store.
    #[error("Data key {key} is wrapped for {wrapped_for}; given is {given}")]
    WrongKey {
        /// The data key.
        key: DataKeyId,
        /// Who can unwrap it.
        wrapped_for: String,
        /// Who was there.
        given: String,
    },
    /// A wrapped data key that has changed although its check value fits.
    #[error("Data key {key} is damaged: {reason}")]
    Damaged {
        /// The data key.
        key: DataKeyId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A data key that there must be is not there.
    #[error("Data key {key} is not in the store")]
    Missing {
        /// The data key.
        key: DataKeyId,
    },
    /// Something is sealed by a key that was put there by somebody else.
    #[error("Data key {key} is in the store, but no key of the store vouches for it")]
    Foreign {
        /// The data key.
        key: DataKeyId,
    },
    /// The store's description is lost.
    #[error(
        "There are checkpoints or packs, but the store's description is gone; restore the object {key}"
    )]
    NoDescription {
        /// The object.
        key: Key,
    },
    /// There are keys, but the store is not sealed.
    #[error("The store is not sealed, although keys are given")]
    StoreNotSealed,
    /// An object without sealing in a sealed store.
    #[error("It is not sealed, although the store is")]
    NotSealed,
    /// A sealed object in a store without sealing.
    #[error("It is sealed by data key {key}, although the store is not sealed")]
    Unexpected {
        /// The data key.
        key: DataKeyId,
    },
}

impl SealError {
    /// Trying again does not help.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Backend(error) => error.is_permanent(),
            Self::Random(_) => false,
            _ => true,
        }
    }
}
