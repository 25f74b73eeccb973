//! Where all blocks of a store are.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use rocferry_image::manifest::{BlockId, Encoding, PackId};

use super::{PackEntry, PackIndex};

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Its pack.
    pub pack: PackId,
    /// Its first byte there.
    pub offset: u64,
    /// Its bytes there.
    pub stored: u32,
    /// Its size before compression.
    pub plain: u32,
    /// How its bytes become the block.
    pub encoding: Encoding,
}

/// The blocks of all packs that are known: what need not be sent. Some 60 bytes for each.
#[derive(Default)]
pub struct BlockIndex {
    packs: Vec<PackId>,
    numbers: HashMap<PackId, u32>,
    entries: Vec<Entry>,
    /// Indices of the entries, by their names.
    table: HashTable<u32>,
    /// Names come from whoever wrote them: an own secret keeps them from being chosen to collide.
    state: RandomState,
}

/// An entry without gaps: offsets are below 1 GiB, and lengths leave the last bit for the encoding.
#[derive(Clone, Copy)]
struct Entry {
    id: BlockId,
    pack: u32,
    offset: u32,
    stored: u32,
    plain: u32,
}

const _: () = assert!(size_of::<Entry>() == 48);

/// Bit of `Entry::stored` that says that the block is compressed.
const ZSTD: u32 = 1 << 31;

impl BlockIndex {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the blocks of a pack. Those that another pack has as well stay where they were found first. A pack
    /// that is there already is not added again.
    pub fn add(&mut self, index: &PackIndex) {
        self.add_entries(index.pack, &index.entries);
    }

    /// Adds some blocks of a pack, as [`BlockIndex::add`] does; those of a pack that is there are added to it.
    pub fn add_entries(&mut self, pack: PackId, entries: &[PackEntry]) {
        let number = *self.numbers.entry(pack).or_insert_with(|| {
            self.packs.push(pack);
            // A store with 2^32 packs of 128 MiB does not fit anywhere.
            u32::try_from(self.packs.len() - 1).unwrap_or(u32::MAX)
        });
        for entry in entries {
            self.insert(number, entry);
        }
    }

    fn insert(&mut self, pack: u32, entry: &PackEntry) {
        let (Ok(offset), Ok(place)) = (
            u32::try_from(entry.offset),
            u32::try_from(self.entries.len()),
        ) else {
            // Not known is never wrong: the block is sent again.
            return;
        };
        let (entries, state) = (&self.entries, &self.state);
        let id_at = |place: u32| entries.get(place as usize).map(|entry| entry.id);
        let slot = self.table.entry(
            state.hash_one(entry.id),
            |known| id_at(*known) == Some(entry.id),
            |known| state.hash_one(id_at(*known).unwrap_or(BlockId([0; 32]))),
        );
        if let hashbrown::hash_table::Entry::Vacant(slot) = slot {
            slot.insert(place);
            if self.entries.len() == self.entries.capacity() {
                // Less than twice as much, which is what a vector takes by itself.
                self.entries
                    .reserve_exact((self.entries.len() / 8).max(1024));
            }
            self.entries.push(Entry {
                id: entry.id,
                pack,
                offset,
                stored: match entry.encoding {
                    Encoding::Raw => entry.stored,
                    Encoding::Zstd => entry.stored | ZSTD,
                },
                plain: entry.plain,
            });
        }
    }

    /// Where a block is; `None` if no pack has it.
    #[must_use]
    pub fn get(&self, id: &BlockId) -> Option<Location> {
        let place = self.table.find(self.state.hash_one(id), |place| {
            let entry = self.entries.get(*place as usize);
            entry.is_some_and(|entry| entry.id == *id)
        });
        let entry = self.entries.get(*place? as usize)?;
        Some(Location {
            pack: *self.packs.get(entry.pack as usize)?,
            offset: entry.offset.into(),
            stored: entry.stored & !ZSTD,
            plain: entry.plain,
            encoding: match entry.stored & ZSTD {
                0 => Encoding::Raw,
                _ => Encoding::Zstd,
            },
        })
    }

    /// Whether a pack was added.
    #[must_use]
    pub fn contains_pack(&self, pack: &PackId) -> bool {
        self.numbers.contains_key(pack)
    }

    /// The packs, in the order in which they were added.
    #[must_use]
    pub fn packs(&self) -> &[PackId] {
        &self.packs
    }

    /// Number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no blocks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory that it takes, but for the names of packs.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.table.allocation_size()
    }
}

impl fmt::Debug for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockIndex")
            .field("packs", &self.packs.len())
            .field("blocks", &self.entries.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rocferry_image::manifest::BLOCK_SIZE;

    use super::*;

    fn block(number: u32) -> BlockId {
        let mut id = [0x5a; 32];
        // As ids are: without order.
        id[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_le_bytes());
        BlockId(id)
    }

    fn pack(number: u32, blocks: std::ops::Range<u32>) -> PackIndex {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        let mut entries: Vec<PackEntry> = Vec::new();
        for number in blocks {
            let zstd = number % 3 == 0;
            entries.push(PackEntry {
                id: block(number),
                offset: entries.last().map_or(40, PackEntry::end),
                stored: if zstd {
                    1000 + number % 1000
                } else {
                    BLOCK_SIZE
                },
                plain: BLOCK_SIZE,
                encoding: if zstd { Encoding::Zstd } else { Encoding::Raw },
            });
        }
        PackIndex {
            pack: PackId(id),
            data_key: None,
            size: entries.last().map_or(40, PackEntry::end) + 100,
            entries,
        }
    }

    #[test]
    fn blocks_are_found_where_they_are() {
        let mut index = BlockIndex::new();
        let packs: Vec<_> = (0..50u32)
            .map(|number| pack(number, number * 20..number * 20 + 40))
            .collect();
        for pack in &packs {
            index.add(pack);
            // Once more changes nothing.
            index.add(pack);
        }
        assert_eq!((index.len(), index.packs().len()), (49 * 20 + 40, 50));
        for pack in packs.iter().rev() {
            assert!(index.contains_pack(&pack.pack));
            for (number, entry) in pack.entries.iter().enumerate() {
                let found = index.get(&entry.id).expect("there");
                // The first half of each is in the one before it.
                if pack.pack == packs[0].pack || number >= 20 {
                    let expected = Location {
                        pack: pack.pack,
                        offset: entry.offset,
                        stored: entry.stored,
                        plain: entry.plain,
                        encoding: entry.encoding,
                    };
                    assert_eq!(found, expected);
                } else {
                    assert_ne!(found.pack, pack.pack);
                }
            }
        }
        assert_eq!(index.get(&block(1_000_000)), None);
        assert!(!index.contains_pack(&PackId([9; 16])));
        assert!(!index.is_empty() && BlockIndex::new().is_empty());
    }

    #[test]
    fn a_million_blocks_take_little_memory() {
        let mut index = BlockIndex::new();
        let count = 1_050_000;
        for number in 0..count / 1000 {
            index.add(&pack(number, number * 1000..(number + 1) * 1000));
        }
        assert_eq!(index.len(), count as usize);
        let each = index.memory() as f64 / f64::from(count);
        assert!(each < 66.0, "{each} bytes");
    }
}
