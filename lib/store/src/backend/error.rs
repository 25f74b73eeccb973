//! What can go wrong with a backend, and whether trying again helps.

use std::ops::Range;
use std::time::Duration;

use crate::Key;

/// Why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no such object.
    #[error("{key} is not in the store")]
    NotFound {
        /// The object.
        key: Key,
    },
    /// There is one already.
    #[error("{key} is in the store already")]
    Exists {
        /// The object.
        key: Key,
    },
    /// An object is larger than its reader takes.
    #[error("{key} is larger than {limit} bytes")]
    TooLarge {
        /// The object.
        key: Key,
        /// The bound, in bytes.
        limit: u64,
    },
    /// The URL names no store.
    #[error("Store URL {url:?}: {reason}")]
    Url {
        /// The URL without credentials.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server refuses these credentials, or there are none.
    #[error("{operation} of {object} is not allowed; check the store's credentials")]
    Denied {
        /// What was done.
        operation: &'static str,
        /// The object, or the store.
        object: String,
        /// What the server or the system said.
        #[source]
        source: Source,
    },
    /// No room is left.
    #[error("No room for {object}")]
    Full {
        /// The object, or the store.
        object: String,
        /// What the server or the system said.
        #[source]
        source: Source,
    },
    /// The store does not answer, or says that it is busy.
    #[error("{operation} of {object} failed for now")]
    Unavailable {
        /// What was done.
        operation: &'static str,
        /// The object, or the store.
        object: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// What the server or the system said.
        #[source]
        source: Source,
    },
    /// Anything else; trying again gives the same.
    #[error("{operation} of {object} failed")]
    Failed {
        /// What was done.
        operation: &'static str,
        /// The object, or the store.
        object: String,
        /// What the server or the system said.
        #[source]
        source: Source,
    },
}

/// The error of the library or system call below.
pub type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// Give up.
    Permanent,
    /// Try again, after this time if the server said so.
    Temporary(Option<Duration>),
}

/// A piece was asked for that the object does not have.
#[derive(Debug, thiserror::Error)]
#[error("Bytes {} to {} of {size}", .range.start, .range.end)]
pub(crate) struct OutOfRange {
    pub(crate) range: Range<u64>,
    pub(crate) size: u64,
}

impl BackendError {
    pub(crate) fn failed(
        operation: &'static str,
        object: impl Into<String>,
        source: impl Into<Source>,
    ) -> Self {
        Self::Failed {
            operation,
            object: object.into(),
            source: source.into(),
        }
    }

    /// Whether trying again helps.
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Unavailable { retry_after, .. } => ErrorClass::Temporary(*retry_after),
            Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::TooLarge { .. }
            | Self::Url { .. }
            | Self::Denied { .. }
            | Self::Full { .. }
            | Self::Failed { .. } => ErrorClass::Permanent,
        }
    }

    /// Trying again does not help.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        matches!(self.class(), ErrorClass::Permanent)
    }
}
