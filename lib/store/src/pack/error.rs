//! What can be wrong with packs and blocks.

use rocferry_image::manifest::{BlockId, PackId};
use thiserror::Error;

use crate::seal::SealError;

/// A pack, an index or a block that cannot be made, or not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError {
    /// Bytes that are not those of this pack.
    #[error("Pack {pack} is damaged: {reason}")]
    Damaged {
        /// The pack.
        pack: PackId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A pack of a later rocferry.
    #[error("Pack {pack} has format version {found}, {supported} is understood")]
    Version {
        /// The pack.
        pack: PackId,
        /// Version found.
        found: u32,
        /// The one that this code reads.
        supported: u32,
    },
    /// Its keys cannot be had, or do not open it.
    #[error("Pack {pack} cannot be opened")]
    Pack {
        /// The pack.
        pack: PackId,
        /// Why not.
        source: SealError,
    },
    /// A block whose content is not what its name says.
    #[error("Block {block} is damaged: {reason}")]
    Block {
        /// The block.
        block: BlockId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Sealing failed.
    #[error("Block {block} cannot be sealed")]
    Seal {
        /// The block.
        block: BlockId,
        /// Why not.
        source: SealError,
    },
    /// A block of more than 4 MiB, or of none.
    #[error("Block of {bytes} bytes, 1 to {limit} are possible")]
    BlockSize {
        /// Its length.
        bytes: usize,
        /// The largest one.
        limit: u32,
    },
    /// A block was made with other keys than the pack's.
    #[error("Block {block} is sealed by another key than pack {pack}")]
    OtherKey {
        /// The block.
        block: BlockId,
        /// The pack.
        pack: PackId,
    },
    /// A pack has no room for another block.
    #[error("Pack {pack} is full")]
    Full {
        /// The pack.
        pack: PackId,
    },
    /// zstd could not be set up.
    #[error("Compression cannot be set up")]
    Compression(#[source] std::io::Error),
}

impl PackError {
    /// Trying again does not help.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Pack { source, .. } | Self::Seal { source, .. } => source.is_permanent(),
            _ => true,
        }
    }
}
