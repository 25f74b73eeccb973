//! Digests of the blocks of a pages file.
//!
//! A checkpoint of a large machine has millions of blocks, and most may be zero: in memory as on disk a
//! zero block is one bit.

use std::collections::HashSet;
use std::fmt;

use prost::Message;

use crate::file_record::check_version;
use crate::walk::{decode, fields, need, required};
use crate::{FormatError, Image, MAX_CONTENT, PAGE_SIZE, wire};

const MESSAGE: &str = "rocferry-index";
const BO_MESSAGE: &str = "rocferry-index object";
const VERSION: u32 = 1;
const DIGEST: usize = 32;
/// Blocks between two entries of the table that finds a block's digest.
const STRIDE: usize = 64;

/// BLAKE3 of the content of a block, 256 bits, without key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// Lower-case hexadecimal.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Nothing but zeros.
    Zero,
    /// Content with this digest.
    Data(Digest),
}

/// Content of `rocferry-index-%d-%04x.img`: the blocks of each buffer object in the pages file with the
/// same numbers. Blocks are aligned within each object; its last one may be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockIndex {
    /// Bytes of a block: a power of two, at least a page.
    pub block_size: u64,
    /// One for each object of the pages file, in its order.
    pub bos: Vec<BoBlocks>,
}

impl BlockIndex {
    /// The blocks of the object with this index in the kfd image.
    #[must_use]
    pub fn bo(&self, bo: u32) -> Option<&BoBlocks> {
        self.bos.iter().find(|blocks| blocks.bo == bo)
    }
}

/// The blocks of one buffer object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoBlocks {
    bo: u32,
    size: u64,
    len: usize,
    zero: Vec<u8>,
    digests: Vec<u8>,
    /// Digests before block `i * STRIDE`.
    before: Vec<usize>,
}

impl BoBlocks {
    /// The blocks of object `bo` (index in the kfd image) of `size` bytes, in order.
    #[must_use]
    pub fn new(bo: u32, size: u64, blocks: impl IntoIterator<Item = Block>) -> Self {
        let (mut zero, mut digests, mut len) = (Vec::new(), Vec::new(), 0);
        for block in blocks {
            if len % 8 == 0 {
                zero.push(0);
            }
            match (block, zero.last_mut()) {
                (Block::Data(digest), _) => digests.extend_from_slice(&digest.0),
                (Block::Zero, Some(byte)) => *byte |= 1 << (len % 8),
                (Block::Zero, None) => {}
            }
            len += 1;
        }
        Self::from_parts(bo, size, len, zero, digests)
    }

    fn from_parts(bo: u32, size: u64, len: usize, zero: Vec<u8>, digests: Vec<u8>) -> Self {
        let mut before = Vec::with_capacity(len.div_ceil(STRIDE));
        let mut count = 0;
        for bytes in zero.chunks(STRIDE / 8) {
            before.push(count);
            count += bytes
                .iter()
                .map(|byte| byte.count_zeros() as usize)
                .sum::<usize>();
        }
        Self {
            bo,
            size,
            len,
            zero,
            digests,
            before,
        }
    }

    /// Index of the object in the kfd image.
    #[must_use]
    pub const fn bo(&self) -> u32 {
        self.bo
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True without any block.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Block number `index`, in constant time.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Block> {
        if index >= self.len {
            return None;
        }
        let byte = *self.zero.get(index / 8)?;
        if byte & (1 << (index % 8)) != 0 {
            return Some(Block::Zero);
        }
        let first = index / STRIDE * (STRIDE / 8);
        let whole = self
            .zero
            .get(first..index / 8)?
            .iter()
            .map(|byte| byte.count_zeros());
        let rest = (!byte & ((1 << (index % 8)) - 1)).count_ones();
        let rank = self.before.get(index / STRIDE)? + (whole.sum::<u32>() + rest) as usize;
        let digest = self.digests.get(rank * DIGEST..)?.first_chunk()?;
        Some(Block::Data(Digest(*digest)))
    }

    /// All blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.len).filter_map(|index| self.get(index))
    }

    fn check(&self, block_size: u64) -> Result<(), FormatError> {
        let failed = |reason| {
            Err(FormatError::Blocks {
                bo: self.bo,
                reason,
            })
        };
        if self.len as u64 != self.size.div_ceil(block_size) {
            return failed("their number does not fit the size");
        }
        if self.zero.len() != self.len.div_ceil(8) {
            return failed("the list of zero blocks has a wrong length");
        }
        let used = self.len % 8;
        if used != 0 && self.zero.last().is_some_and(|byte| byte >> used != 0) {
            return failed("the list of zero blocks has bits past its end");
        }
        let zeros: usize = self
            .zero
            .iter()
            .map(|byte| byte.count_ones() as usize)
            .sum();
        if Some(self.digests.len()) != (self.len - zeros).checked_mul(DIGEST) {
            return failed("the number of digests is wrong");
        }
        Ok(())
    }
}

impl Image for BlockIndex {
    const MAX: u64 = MAX_CONTENT;

    fn decode(content: &[u8]) -> Result<Self, FormatError> {
        let (mut version, mut block_size) = (None, None);
        let mut entries = Vec::new();
        fields(MESSAGE, content, |number, field| {
            match number {
                1 => version = Some(field.u32(MESSAGE)?),
                2 => block_size = Some(field.u64(MESSAGE)?),
                3 => entries.push(field.bytes(MESSAGE)?),
                _ => {}
            }
            Ok(())
        })?;
        check_version(
            MESSAGE,
            required(MESSAGE, None, "version", version)?,
            VERSION,
        )?;
        let block_size = required(MESSAGE, None, "block_size", block_size)?;
        check_block_size(block_size)?;
        let decoded = entries.into_iter().enumerate().map(|(index, entry)| {
            let entry: wire::BoBlocks = decode(BO_MESSAGE, entry)?;
            let index = Some(index);
            let bo = need!(BO_MESSAGE, index, entry.bo);
            let size = need!(BO_MESSAGE, index, entry.size);
            let zero = need!(BO_MESSAGE, index, entry.zero_blocks);
            let digests = need!(BO_MESSAGE, index, entry.digests);
            let len = usize::try_from(size.div_ceil(block_size));
            let len = len.ok().filter(|len| zero.len() == len.div_ceil(8));
            let Some(len) = len else {
                let reason = "the list of zero blocks has a wrong length";
                return Err(FormatError::Blocks { bo, reason });
            };
            Ok(BoBlocks::from_parts(bo, size, len, zero, digests))
        });
        let index = Self {
            block_size,
            bos: decoded.collect::<Result<_, _>>()?,
        };
        index.validate()?;
        Ok(index)
    }

    fn encode(&self) -> Vec<u8> {
        let bos = self.bos.iter().map(|blocks| wire::BoBlocks {
            bo: Some(blocks.bo),
            size: Some(blocks.size),
            zero_blocks: Some(blocks.zero.clone()),
            digests: Some(blocks.digests.clone()),
        });
        wire::BlockIndex {
            version: Some(VERSION),
            block_size: Some(self.block_size),
            bos: bos.collect(),
        }
        .encode_to_vec()
    }

    fn validate(&self) -> Result<(), FormatError> {
        check_block_size(self.block_size)?;
        let mut seen = HashSet::new();
        for blocks in &self.bos {
            if !seen.insert(blocks.bo) {
                return Err(FormatError::Blocks {
                    bo: blocks.bo,
                    reason: "listed twice",
                });
            }
            blocks.check(self.block_size)?;
        }
        Ok(())
    }
}

fn check_block_size(value: u64) -> Result<(), FormatError> {
    if !value.is_power_of_two() || value < PAGE_SIZE {
        let (message, field) = (MESSAGE, "block_size");
        return Err(FormatError::InvalidValue {
            message,
            index: None,
            field,
            value,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest(byte: u8) -> Block {
        Block::Data(Digest([byte; 32]))
    }

    #[test]
    fn the_format_stays() {
        let blocks = [digest(1), Block::Zero, digest(2)];
        let index = BlockIndex {
            block_size: 4096,
            bos: vec![BoBlocks::new(5, 3 * 4096, blocks)],
        };
        let golden = [
            &[
                0x08, 1, 0x10, 0x80, 0x20, 0x1a, 74, 0x08, 5, 0x10, 0x80, 0x60, 0x1a, 1, 0b010,
            ][..],
            &[0x22, 64],
            &[1; 32],
            &[2; 32],
        ]
        .concat();
        assert_eq!(index.encode(), golden);
        assert_eq!(BlockIndex::decode(&golden), Ok(index.clone()));
        assert_eq!(
            index.bo(5).map(|b| b.iter().collect()),
            Some(blocks.to_vec())
        );
        assert_eq!(index.bo(4), None);
        assert_eq!(Digest([0xa5; 32]).to_string(), "a5".repeat(32));
    }

    #[test]
    fn a_terabyte_of_zeros_is_small() {
        let size = 1u64 << 40;
        let blocks = std::iter::repeat_n(Block::Zero, 1 << 18);
        let index = BlockIndex {
            block_size: 4 << 20,
            bos: vec![BoBlocks::new(0, size, blocks)],
        };
        assert!(index.encode().len() < 33_000);
        assert_eq!(BlockIndex::decode(&index.encode()), Ok(index));
    }

    fn changed(change: impl FnOnce(&mut wire::BlockIndex)) -> Result<BlockIndex, FormatError> {
        let bos = vec![
            BoBlocks::new(0, 4096 * 9, (0..9).map(|_| digest(7))),
            BoBlocks::new(1, 4096, [Block::Zero]),
        ];
        let encoded = BlockIndex {
            block_size: 4096,
            bos,
        }
        .encode();
        let mut message: wire::BlockIndex = decode(MESSAGE, &encoded).expect("own");
        change(&mut message);
        BlockIndex::decode(&message.encode_to_vec())
    }

    #[test]
    fn damage_is_refused() {
        changed(|_| {}).expect("undamaged");
        for size in [0, 1, 2048, 4097, 12288] {
            let error = changed(|m| m.block_size = Some(size)).expect_err("block size");
            assert!(matches!(
                error,
                FormatError::InvalidValue {
                    field: "block_size",
                    ..
                }
            ));
        }
        let missing = |message, index, field| {
            Err(FormatError::MissingField {
                message,
                index,
                field,
            })
        };
        assert_eq!(
            changed(|m| m.version = None),
            missing(MESSAGE, None, "version")
        );
        assert_eq!(
            changed(|m| m.block_size = None),
            missing(MESSAGE, None, "block_size")
        );
        assert_eq!(
            changed(|m| m.bos[1].bo = None),
            missing(BO_MESSAGE, Some(1), "bo")
        );
        assert_eq!(
            changed(|m| m.bos[1].size = None),
            missing(BO_MESSAGE, Some(1), "size")
        );
        assert_eq!(
            changed(|m| m.bos[1].zero_blocks = None),
            missing(BO_MESSAGE, Some(1), "zero_blocks")
        );
        assert_eq!(
            changed(|m| m.bos[1].digests = None),
            missing(BO_MESSAGE, Some(1), "digests")
        );
        let blocks = |bo, reason| Err(FormatError::Blocks { bo, reason });
        assert_eq!(
            changed(|m| m.bos[1].bo = Some(0)),
            blocks(0, "listed twice")
        );
        let length = "the list of zero blocks has a wrong length";
        assert_eq!(
            changed(|m| m.bos[0].size = Some(u64::MAX)),
            blocks(0, length)
        );
        assert_eq!(
            changed(|m| m.bos[0].size = Some(4096 * 8)),
            blocks(0, length)
        );
        assert_eq!(
            changed(|m| m.bos[0].zero_blocks = Some(vec![0])),
            blocks(0, length)
        );
        assert_eq!(
            changed(|m| m.bos[0].zero_blocks = Some(vec![0, 2])),
            blocks(0, "the list of zero blocks has bits past its end")
        );
        let number = "the number of digests is wrong";
        assert_eq!(
            changed(|m| m.bos[0].zero_blocks = Some(vec![1, 0])),
            blocks(0, number)
        );
        assert_eq!(
            changed(|m| m.bos[1].digests = Some(vec![0])),
            blocks(1, number)
        );
        // Told apart before writing as well.
        let short = BlockIndex {
            block_size: 4096,
            bos: vec![BoBlocks::new(3, 8192, [digest(1)])],
        };
        let reason = "their number does not fit the size";
        assert_eq!(short.validate(), Err(FormatError::Blocks { bo: 3, reason }));
    }

    proptest! {
        #[test]
        fn blocks_come_back(
            bos in prop::collection::vec((prop::collection::vec(prop::option::of(any::<[u8; 32]>()), 0..200), 0u64..4096), 0..4),
        ) {
            let list = |blocks: &[Option<[u8; 32]>]| -> Vec<Block> {
                blocks.iter().map(|b| b.map_or(Block::Zero, |d| Block::Data(Digest(d)))).collect()
            };
            let index = BlockIndex {
                block_size: 4096,
                bos: (0..).zip(&bos).map(|(bo, (blocks, cut))| {
                    // The last block may be shorter.
                    let size = (blocks.len() as u64 * 4096).saturating_sub(*cut);
                    BoBlocks::new(bo, size, list(blocks))
                }).collect(),
            };
            prop_assert_eq!(index.validate(), Ok(()));
            let decoded = BlockIndex::decode(&index.encode()).expect("valid");
            prop_assert_eq!(&decoded, &index);
            for (blocks, (expected, _)) in decoded.bos.iter().zip(&bos) {
                prop_assert_eq!(blocks.iter().collect::<Vec<_>>(), list(expected));
                prop_assert_eq!(blocks.len(), expected.len());
                prop_assert_eq!(blocks.is_empty(), expected.is_empty());
                prop_assert_eq!(blocks.get(expected.len()), None);
            }
        }

        #[test]
        fn no_content_panics(content in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = BlockIndex::decode(&content);
        }
    }
}
