//! What can be wrong with what is in a store.

use std::fmt;

use rocferry_image::manifest::{BlockId, CheckpointId};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use thiserror::Error;

use crate::backend::BackendError;
use crate::chain::chain;
use crate::{Key, StoreError};

/// Something that is not as it should be.
#[derive(Debug)]
pub struct Fault {
    /// The object.
    pub object: Key,
    /// The checkpoint in which that shows, if it is one.
    pub checkpoint: Option<CheckpointId>,
    /// What is wrong.
    pub defect: Defect,
}

impl Fault {
    pub(super) fn new(object: Key, defect: impl Into<Defect>) -> Self {
        Self {
            object,
            checkpoint: None,
            defect: defect.into(),
        }
    }
}

/// What is wrong with an object.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Defect {
    /// It is not there.
    #[error("It is not in the store")]
    Missing,
    /// It cannot be read, or not be used.
    #[error("It cannot be used")]
    Unusable(#[source] Box<StoreError>),
    /// A pack is not as long as its list of blocks says.
    #[error("It has {actual} bytes; {expected} are expected")]
    Size {
        /// Bytes by its list of blocks.
        expected: u64,
        /// Bytes that it has.
        actual: u64,
    },
    /// A pack and its index say different things.
    #[error("It has another list of blocks than its index")]
    OtherList,
    /// A block of a pack.
    #[error("Block {block} at byte {offset} is damaged")]
    Block {
        /// The block.
        block: BlockId,
        /// Its first byte in the pack.
        offset: u64,
        /// What is wrong with it.
        source: Box<StoreError>,
    },
    /// A manifest names a block where the pack does not have it.
    #[error("{path} needs block {block} at byte {offset}, where the pack has another one or none")]
    Place {
        /// The file.
        path: String,
        /// The block.
        block: BlockId,
        /// Its first byte in the pack, by the manifest.
        offset: u64,
    },
}

impl From<StoreError> for Defect {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Backend(BackendError::NotFound { .. }) => Self::Missing,
            other => Self::Unusable(Box::new(other)),
        }
    }
}

/// The object, the defect, and the checkpoint if there is one; on one line.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, chain(&self.defect))?;
        match &self.checkpoint {
            Some(checkpoint) => write!(f, " (checkpoint {checkpoint})"),
            None => Ok(()),
        }
    }
}

/// `object`, `checkpoint`, and the defect in words as `reason`.
impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fault = to.serialize_struct("Fault", 3)?;
        fault.serialize_field("object", &self.object.to_string())?;
        let checkpoint = self.checkpoint.as_ref();
        fault.serialize_field("checkpoint", &checkpoint.map(CheckpointId::as_str))?;
        fault.serialize_field("reason", &chain(&self.defect))?;
        fault.end()
    }
}

/// The first ones of many.
#[derive(Debug)]
pub(super) struct Faults {
    kept: Vec<Fault>,
    limit: usize,
    more: u64,
}

impl Faults {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            kept: Vec::new(),
            limit,
            more: 0,
        }
    }

    pub(super) fn push(&mut self, fault: Fault) {
        if self.kept.len() < self.limit {
            self.kept.push(fault);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    pub(super) fn extend(&mut self, faults: impl IntoIterator<Item = Fault>) {
        faults.into_iter().for_each(|fault| self.push(fault));
    }

    /// Those that are kept, and how many are not.
    pub(super) fn into_parts(self) -> (Vec<Fault>, u64) {
        (self.kept, self.more)
    }
}

/// The error, if it says something of the store as a whole: nothing can be looked at then.
pub(super) fn fatal(error: StoreError) -> Result<StoreError, StoreError> {
    match error {
        StoreError::Backend(BackendError::Unavailable { .. } | BackendError::Denied { .. })
        | StoreError::Cancelled
        | StoreError::Internal(_) => Err(error),
        other => Ok(other),
    }
}
