//! The blocks of a span from their columns.

use prost::encoding::decode_varint;

use super::{BlockId, BlockRef, Blocks, Encoding, ManifestError};
use crate::walk::malformed;

const MESSAGE: &str = "manifest span";

/// The columns as they stand in the message.
pub(super) struct Columns<'a> {
    /// Blocks that the span has by its size.
    pub(super) count: u64,
    pub(super) zero: Option<&'a [u8]>,
    pub(super) ids: &'a [u8],
    pub(super) packs: &'a [u8],
    pub(super) offsets: &'a [u8],
    pub(super) stored: &'a [u8],
    pub(super) encodings: &'a [u8],
}

/// The blocks. No memory is taken before all columns are as long as the span's size wants them.
pub(super) fn blocks(columns: &Columns<'_>) -> Result<Blocks, ManifestError> {
    let failed = |reason| Err(malformed(MESSAGE, reason).into());
    let zeros = match columns.zero {
        None => 0,
        Some(bits) => {
            if bits.len() as u64 != columns.count.div_ceil(8) {
                return failed("the list of zero blocks has a wrong length");
            }
            let used = columns.count % 8;
            if used != 0 && bits.last().is_some_and(|byte| byte >> used != 0) {
                return failed("the list of zero blocks has bits past its end");
            }
            bits.iter().map(|byte| u64::from(byte.count_ones())).sum()
        }
    };
    let (ids, rest) = columns.ids.as_chunks();
    if !rest.is_empty() || ids.len() as u64 != columns.count - zeros {
        return failed("the number of block ids does not fit the size");
    }
    if columns.encodings.len() != ids.len() {
        return failed("the number of encodings does not fit the size");
    }
    let mut packs = Varints(columns.packs);
    let mut offsets = Varints(columns.offsets);
    let mut stored = Varints(columns.stored);
    let mut block = |id: &[u8; 32], encoding: u8| -> Result<BlockRef, ManifestError> {
        Ok(BlockRef::Stored {
            id: BlockId(*id),
            pack: packs.next_u32("packs")?,
            offset: offsets.next("offsets")?,
            stored: stored.next_u32("stored")?,
            encoding: match encoding {
                0 => Encoding::Raw,
                1 => Encoding::Zstd,
                other => return Err(super::decode::invalid(MESSAGE, "encoding", other.into())),
            },
        })
    };
    let mut known = ids.iter().zip(columns.encodings);
    let mut blocks = Blocks::new();
    match columns.zero {
        None => {
            for (id, encoding) in known {
                blocks.push(block(id, *encoding)?);
            }
        }
        Some(bits) => {
            for index in 0..columns.count {
                let byte = usize::try_from(index / 8).ok().and_then(|at| bits.get(at));
                let zero = byte.is_some_and(|byte| byte & (1 << (index % 8)) != 0);
                let next = if zero { None } else { known.next() };
                blocks.push(match next {
                    Some((id, encoding)) => block(id, *encoding)?,
                    None => BlockRef::Zero,
                });
            }
        }
    }
    for (column, name) in [(packs, "packs"), (offsets, "offsets"), (stored, "stored")] {
        if !column.0.is_empty() {
            return Err(malformed(MESSAGE, &format!("too many {name}")).into());
        }
    }
    Ok(blocks)
}

/// A packed list of numbers.
struct Varints<'a>(&'a [u8]);

impl Varints<'_> {
    fn next(&mut self, name: &str) -> Result<u64, ManifestError> {
        decode_varint(&mut self.0)
            .map_err(|_| malformed(MESSAGE, &format!("too few {name}")).into())
    }

    fn next_u32(&mut self, name: &'static str) -> Result<u32, ManifestError> {
        let value = self.next(name)?;
        u32::try_from(value).map_err(|_| super::decode::invalid(MESSAGE, name, value))
    }
}
