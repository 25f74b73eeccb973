//! What can go wrong with a store.

use std::io;
use std::path::PathBuf;

use rocferry_image::manifest::{BlockId, CheckpointId, ManifestError, PackId};
use thiserror::Error;

use crate::backend::BackendError;
use crate::envelope::{EnvelopeError, ObjectError};
use crate::pack::PackError;
use crate::seal::{RandomError, SealError};
use crate::{Key, LeaseId};

/// An operation on a store that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The place where objects are kept.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Keys.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Packs and blocks.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// Manifests.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// No random bytes.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// What was to be stored makes no checkpoint.
    #[error("The checkpoint cannot be stored")]
    Manifest(#[from] ManifestError),
    /// A small object that cannot be read.
    #[error("{key} cannot be used")]
    Object {
        /// The object.
        key: Key,
        /// What is wrong with it.
        source: ObjectError,
    },
    /// A file on this machine.
    #[error("{operation} {} failed", path.display())]
    File {
        /// What was done.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is shorter than whoever writes it said.
    #[error("{path} ends at {actual} bytes, before {expected}")]
    Short {
        /// The file.
        path: String,
        /// Bytes that there should be.
        expected: u64,
        /// Bytes that there are.
        actual: u64,
    },
    /// A file cannot be part of a checkpoint.
    #[error("{path} cannot be stored: {reason}")]
    Unfit {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Whoever writes a file gave up.
    #[error("{path} was not finished")]
    Unfinished {
        /// The file.
        path: String,
    },
    /// There is no such checkpoint.
    #[error("There is no checkpoint {checkpoint} in the store")]
    NoCheckpoint {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// A checkpoint needs a pack that is gone.
    #[error("Checkpoint {checkpoint} needs pack {pack}, which is not in the store")]
    NoPack {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The pack.
        pack: PackId,
    },
    /// A checkpoint that is not to be deleted.
    #[error("Checkpoint {checkpoint} is pinned: {reason}; unpin it first")]
    Pinned {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why it is pinned.
        reason: String,
    },
    /// A checkpoint was pinned while it was deleted.
    #[error("Checkpoint {checkpoint} was pinned while it was deleted: {reason}; it is gone")]
    PinnedTooLate {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why it was pinned.
        reason: String,
    },
    /// A reason, of a pin for instance, that is too long.
    #[error("The reason has {bytes} bytes, {limit} are possible")]
    Reason {
        /// Its length.
        bytes: usize,
        /// The longest one.
        limit: usize,
    },
    /// Garbage was not collected, since it is not known what is needed.
    #[error("Nothing was deleted: it is not known what is needed")]
    Collection {
        /// What cannot be read.
        source: Box<StoreError>,
    },
    /// The store could not be told for too long that an upload still runs.
    #[error(
        "Lease {lease} was not renewed in time: what was sent may be deleted; store the checkpoint again, \
         which sends only what is missing"
    )]
    LeaseLost {
        /// The lease.
        lease: LeaseId,
    },
    /// A block was sent and is not where it should be: a fault of this code.
    #[error("Block {block} is in no pack")]
    Lost {
        /// The block.
        block: BlockId,
    },
    /// The place that a checkpoint is to be written to holds something else.
    #[error("{} is not empty and no unfinished copy of {checkpoint}", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// Somebody else writes a checkpoint to that place.
    #[error("Somebody else is writing a checkpoint to {}", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// A file is not any more what it was when storing began.
    #[error("{path} changed while it was stored")]
    Changed {
        /// The file.
        path: String,
    },
    /// There is no store at that place.
    #[error("There is no store here: nothing was ever stored")]
    NoStore,
    /// Work was given up because something else failed, or somebody asked for it.
    #[error("Cancelled")]
    Cancelled,
    /// A part of the work panicked: a fault of this code.
    #[error("Internal error: {0}")]
    Internal(String),
}

impl StoreError {
    /// Trying again does not help.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Backend(error) => error.is_permanent(),
            Self::Seal(error) => error.is_permanent(),
            Self::Pack(error) => error.is_permanent(),
            Self::Envelope(error) => error.is_permanent(),
            Self::Collection { source } => source.is_permanent(),
            Self::Random(_) | Self::LeaseLost { .. } | Self::Cancelled => false,
            _ => true,
        }
    }

    pub(crate) fn file(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            operation,
            path,
            source,
        }
    }
}

/// Of work on another thread.
impl From<tokio::task::JoinError> for StoreError {
    fn from(error: tokio::task::JoinError) -> Self {
        if error.is_cancelled() {
            return Self::Cancelled;
        }
        Self::Internal(error.to_string())
    }
}
