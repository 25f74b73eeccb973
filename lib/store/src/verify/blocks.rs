//! Reading the blocks of a pack.

use std::ops::Range;

use bytes::Bytes;
use rocferry_image::manifest::{DataKeyId, PackId};

use super::fault::{Defect, Fault, fatal};
use crate::backend::BackendError;
use crate::pack::{BlockDecoder, PackEntry};
use crate::progress::{Count, Progress};
use crate::{Key, Store, StoreError};

/// Bytes that are read at once, unless a single block is longer.
const CHUNK: u64 = 8 << 20;

/// Reads these blocks, which are in the order of their places. Returns those that are damaged, by place;
/// `None` if the pack goes away meanwhile.
pub(super) async fn read_blocks(
    store: &Store,
    pack: PackId,
    data_key: Option<DataKeyId>,
    blocks: Vec<PackEntry>,
    progress: &Progress,
) -> Result<Option<Vec<(u64, Fault)>>, StoreError> {
    progress.add(Count::Expected, bytes(&blocks));
    let mut damaged = Vec::new();
    for chunk in chunks(&blocks) {
        match read_chunk(store, pack, data_key, chunk).await {
            Ok(found) => damaged.extend(found),
            Err(StoreError::Backend(BackendError::NotFound { .. })) => return Ok(None),
            Err(error) => {
                fatal(error)?;
                // A bad place on a disk, for instance: there may be good blocks around it.
                for block in chunk {
                    match read_chunk(store, pack, data_key, std::slice::from_ref(block)).await {
                        Ok(found) => damaged.extend(found),
                        Err(StoreError::Backend(BackendError::NotFound { .. })) => return Ok(None),
                        Err(error) => damaged.push((*block, fatal(error)?)),
                    }
                }
            }
        }
        progress.add(Count::Moved, bytes(chunk));
        progress.add(Count::Done, bytes(chunk));
    }
    let faults = damaged.into_iter().map(|(block, error)| {
        let defect = Defect::Block {
            block: block.id,
            offset: block.offset,
            source: Box::new(error),
        };
        (block.offset, Fault::new(Key::Pack(pack), defect))
    });
    Ok(Some(faults.collect()))
}

/// Reads neighbours at once. Returns those that are damaged.
async fn read_chunk(
    store: &Store,
    pack: PackId,
    data_key: Option<DataKeyId>,
    blocks: &[PackEntry],
) -> Result<Vec<(PackEntry, StoreError)>, StoreError> {
    let (range, length) = (range(blocks), bytes(blocks));
    let chunk = store
        .backend()
        .get(&Key::Pack(pack), Some(range), length)
        .await?;
    let (store, blocks) = (store.clone(), blocks.to_vec());
    tokio::task::spawn_blocking(move || decode(&store, data_key, &blocks, &chunk)).await?
}

/// Those that are damaged.
fn decode(
    store: &Store,
    data_key: Option<DataKeyId>,
    blocks: &[PackEntry],
    chunk: &Bytes,
) -> Result<Vec<(PackEntry, StoreError)>, StoreError> {
    let keys = store.keys(data_key)?;
    let mut decoder = BlockDecoder::new()?;
    let mut damaged = Vec::new();
    let start = range(blocks).start;
    for block in blocks {
        let first = usize::try_from(block.offset.saturating_sub(start)).unwrap_or(usize::MAX);
        let last = first.saturating_add(block.stored as usize);
        let stored = chunk.get(first..last).unwrap_or_default();
        let plain = decoder.decode(&keys, block.id, block.plain, block.encoding, stored);
        if let Err(error) = plain {
            damaged.push((*block, error.into()));
        }
    }
    Ok(damaged)
}

/// Blocks that are read at once: neighbours.
fn chunks(blocks: &[PackEntry]) -> impl Iterator<Item = &[PackEntry]> {
    let mut rest = blocks;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut end = first.offset;
        let count = rest.iter().take_while(|block| {
            let next = block.offset.saturating_add(block.stored.into());
            let joined = block.offset == end && next - first.offset <= CHUNK;
            end = if joined { next } else { end };
            joined
        });
        // The first one is always taken.
        let (chunk, others) = rest.split_at_checked(count.count().max(1))?;
        rest = others;
        Some(chunk)
    })
}

fn bytes(blocks: &[PackEntry]) -> u64 {
    blocks.iter().map(|block| u64::from(block.stored)).sum()
}

fn range(blocks: &[PackEntry]) -> Range<u64> {
    let start = blocks.first().map_or(0, |block| block.offset);
    let end = blocks.last();
    start..end.map_or(0, |block| block.offset.saturating_add(block.stored.into()))
}
