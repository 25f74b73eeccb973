//! Making a pack.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use rocferry_image::manifest::{BlockId, MAX_PACK, PACK_HEADER, PackId};

use super::index::finish;
use super::layout::{FOOTER, MAX_BLOCKS, MAX_TRAILER, PackHeader};
use super::{EncodedBlock, PackEntry, PackError, PackIndex};
use crate::seal::Keys;

/// Size at which a pack is ended, in bytes: large enough that requests do not count, small enough that little
/// is sent again after a crash.
pub const TARGET_SIZE: u64 = 128 << 20;

/// A pack that is being made. It holds the list of its blocks and none of their bytes: those are to be sent
/// as they come.
#[derive(Debug)]
pub struct PackBuilder {
    header: PackHeader,
    keys: Arc<Keys>,
    target: u64,
    entries: Vec<PackEntry>,
    ids: HashSet<BlockId>,
}

/// What is left to do when a pack has all its blocks.
#[derive(Debug)]
pub struct FinishedPack {
    /// The last bytes of the pack.
    pub tail: Bytes,
    /// The object `index/ID`, to be written when the pack is acknowledged.
    pub index_object: Bytes,
    /// The same, decoded.
    pub index: PackIndex,
}

impl PackBuilder {
    /// An empty pack, and its first bytes. It is full when it has `target` bytes ([`TARGET_SIZE`]).
    #[must_use]
    pub fn new(pack: PackId, keys: Arc<Keys>, target: u64) -> (Self, Bytes) {
        let data_key = keys.id();
        let header = PackHeader { pack, data_key };
        let builder = Self {
            header,
            keys,
            target,
            entries: Vec::new(),
            ids: HashSet::new(),
        };
        (builder, Bytes::copy_from_slice(&header.encode()))
    }

    /// The pack.
    #[must_use]
    pub const fn pack(&self) -> PackId {
        self.header.pack
    }

    /// Bytes so far, without trailer and footer.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.entries.last().map_or(PACK_HEADER, PackEntry::end)
    }

    /// Number of its blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no block yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it should be ended.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.size() >= self.target || self.entries.len() >= MAX_BLOCKS
    }

    /// Whether it has this block.
    #[must_use]
    pub fn contains(&self, id: &BlockId) -> bool {
        self.ids.contains(id)
    }

    /// The names of its blocks.
    pub fn ids(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.entries.iter().map(|entry| entry.id)
    }

    /// Adds a block: where it is, and the bytes that come next.
    ///
    /// # Errors
    /// [`PackError::Full`]; [`PackError::OtherKey`]; [`PackError::Block`] if the pack has it already.
    pub fn push(&mut self, block: EncodedBlock) -> Result<(PackEntry, Bytes), PackError> {
        let pack = self.pack();
        if block.data_key() != self.header.data_key {
            let block = block.id();
            return Err(PackError::OtherKey { block, pack });
        }
        let entry = block.entry(self.size());
        let end = entry.end() + (MAX_TRAILER + FOOTER) as u64;
        if self.entries.len() >= MAX_BLOCKS || end > MAX_PACK {
            return Err(PackError::Full { pack });
        }
        if !self.ids.insert(entry.id) {
            return Err(PackError::Block {
                block: entry.id,
                reason: "the pack has it already",
            });
        }
        self.entries.push(entry);
        Ok((entry, block.into_bytes()))
    }

    /// Ends the pack.
    ///
    /// # Errors
    /// [`PackError::Damaged`] for a pack without blocks, which is none; [`PackError::Pack`].
    pub fn finish(self) -> Result<FinishedPack, PackError> {
        let pack = self.pack();
        if self.entries.is_empty() {
            let reason = "it has no blocks";
            return Err(PackError::Damaged { pack, reason });
        }
        let (tail, index_object, size) = finish(&self.header, &self.entries, &self.keys)?;
        Ok(FinishedPack {
            tail,
            index_object,
            index: PackIndex {
                pack,
                data_key: self.header.data_key,
                size,
                entries: self.entries,
            },
        })
    }
}
