//! A pack: its size, its lists of blocks, and what of it is read.

use std::collections::HashSet;

use rocferry_image::manifest::{BlockId, Encoding, PackId};

use super::blocks::read_blocks;
use super::fault::{Defect, Fault, fatal};
use crate::backend::{BackendError, Meta};
use crate::pack::{MAX_INDEX_OBJECT, PackEntry, PackIndex};
use crate::progress::{Count, Progress};
use crate::{Key, Store, StoreError};

/// What is known of a pack that is there.
#[derive(Debug)]
pub(super) struct Checked {
    /// Its bytes.
    pub(super) size: u64,
    /// Its blocks, by place; `None`: nothing says which ones there are.
    list: Option<Vec<PackEntry>>,
    /// Places of blocks that are damaged.
    pub(super) damaged: HashSet<u64>,
    /// Blocks that were read.
    pub(super) blocks: u64,
    /// Whether it has no index object.
    pub(super) unindexed: bool,
}

/// What a manifest wants to know of a block.
pub(super) enum Standing {
    /// It is there, and not known to be damaged.
    Good,
    /// It is there, but damaged, or cannot be told from damage of the whole pack. That is a fault already.
    Damaged,
    /// It is not there.
    Absent,
}

impl Checked {
    /// How a block stands that a manifest says is there.
    pub(super) fn standing(
        &self,
        id: BlockId,
        offset: u64,
        stored: u32,
        plain: u32,
        encoding: Encoding,
    ) -> Standing {
        let Some(list) = &self.list else {
            return Standing::Damaged;
        };
        let entry = list.binary_search_by_key(&offset, |entry| entry.offset);
        let entry = entry.ok().and_then(|index| list.get(index));
        let same = |entry: &PackEntry| {
            (entry.id, entry.stored, entry.plain, entry.encoding) == (id, stored, plain, encoding)
        };
        match entry {
            Some(entry) if !same(entry) => Standing::Absent,
            Some(entry) if self.damaged.contains(&entry.offset) => Standing::Damaged,
            Some(entry) if entry.offset.saturating_add(stored.into()) > self.size => {
                Standing::Damaged
            }
            Some(_) => Standing::Good,
            None => Standing::Absent,
        }
    }
}

impl Store {
    /// Looks at a pack; `None` if it goes away meanwhile. `places` are the blocks to be read, `None` all.
    pub(super) async fn check_pack(
        &self,
        pack: PackId,
        meta: Meta,
        places: Option<HashSet<u64>>,
        deep: bool,
        progress: &Progress,
    ) -> Result<(Option<Checked>, Vec<Fault>), StoreError> {
        let mut faults = Vec::new();
        let (by_index, unindexed) = self.index_of(pack, &mut faults).await?;
        // Quickly, the pack itself is asked only when nothing else tells.
        let by_pack = match deep || by_index.is_none() {
            false => None,
            true => match self.pack_end(pack, meta.size).await {
                Ok((list, _)) => Some(list),
                Err(StoreError::Backend(BackendError::NotFound { .. })) => {
                    // If a manifest needs it, that shows there.
                    return Ok((None, Vec::new()));
                }
                Err(error) => {
                    faults.push(Fault::new(Key::Pack(pack), fatal(error)?));
                    None
                }
            },
        };
        if let (Some(one), Some(other)) = (&by_index, &by_pack)
            && one != other
        {
            faults.push(Fault::new(Key::Pack(pack), Defect::OtherList));
        }
        let list = by_index.or(by_pack);
        if let Some(list) = &list
            && list.size != meta.size
        {
            let (expected, actual) = (list.size, meta.size);
            faults.push(Fault::new(
                Key::Pack(pack),
                Defect::Size { expected, actual },
            ));
        }
        let mut checked = Checked {
            size: meta.size,
            list: None,
            damaged: HashSet::new(),
            blocks: 0,
            unindexed,
        };
        if let Some(list) = list {
            if deep {
                let wanted = wanted(&list.entries, places.as_ref(), meta.size);
                checked.blocks = wanted.len() as u64;
                let damaged = read_blocks(self, pack, list.data_key, wanted, progress).await?;
                let Some(damaged) = damaged else {
                    return Ok((None, Vec::new()));
                };
                for (offset, fault) in damaged {
                    checked.damaged.insert(offset);
                    faults.push(fault);
                }
            }
            checked.list = Some(list.entries);
        }
        progress.add(Count::Packs, 1);
        Ok((Some(checked), faults))
    }

    /// The list of blocks in the index object, and whether there is no such object.
    async fn index_of(
        &self,
        pack: PackId,
        faults: &mut Vec<Fault>,
    ) -> Result<(Option<PackIndex>, bool), StoreError> {
        let key = Key::Index(pack);
        let object = match self.backend().get(&key, None, MAX_INDEX_OBJECT).await {
            Ok(object) => object,
            Err(BackendError::NotFound { .. }) => return Ok((None, true)),
            Err(error) => {
                faults.push(Fault::new(key, fatal(error.into())?));
                return Ok((None, false));
            }
        };
        let store = self.clone();
        let decoded =
            tokio::task::spawn_blocking(move || PackIndex::decode(pack, &object, store.keyring()));
        match decoded.await? {
            Ok(list) => Ok((Some(list), false)),
            Err(error) => {
                faults.push(Fault::new(key, StoreError::from(error)));
                Ok((None, false))
            }
        }
    }
}

/// The blocks to be read of those that are inside of the pack: what is beyond its end is a fault already.
fn wanted(list: &[PackEntry], places: Option<&HashSet<u64>>, size: u64) -> Vec<PackEntry> {
    let wanted = list.iter().filter(|entry| {
        let asked = places.is_none_or(|places| places.contains(&entry.offset));
        asked && entry.offset.saturating_add(entry.stored.into()) <= size
    });
    wanted.copied().collect()
}
