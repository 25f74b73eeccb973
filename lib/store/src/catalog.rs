//! What a store has: the blocks of all its packs.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use rocferry_image::manifest::PackId;

use crate::backend::{BackendError, Existing, Meta};
use crate::pack::{BlockIndex, FOOTER, HEADER, MAX_INDEX_OBJECT, PackError, PackIndex};
use crate::{Key, Kind, Store, StoreError};

/// Lists that are read at a time.
const PARALLEL: usize = 16;

/// The packs of a store at some moment.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    /// Blocks of the packs that may be relied on and are of the data key of today.
    pub(crate) blocks: BlockIndex,
    /// All packs that are there, condemned ones as well.
    pub(crate) packs: HashMap<PackId, Meta>,
    /// Packs that are about to be deleted: nothing new may rely on them.
    pub(crate) condemned: HashSet<PackId>,
    /// Packs whose list cannot be read. Nothing new relies on them either.
    pub(crate) unreadable: Vec<(PackId, PackError)>,
}

impl Store {
    /// Packs that are there, by name.
    pub(crate) async fn packs(&self) -> Result<HashMap<PackId, Meta>, StoreError> {
        let packs = self.backend().list(Kind::Pack).await?.into_iter();
        let packs = packs.filter_map(|(key, meta)| match key {
            Key::Pack(pack) => Some((pack, meta)),
            _ => None,
        });
        Ok(packs.collect())
    }

    /// Packs that are about to be deleted.
    pub(crate) async fn condemned(&self) -> Result<HashSet<PackId>, StoreError> {
        let condemned = self.backend().list(Kind::Condemned).await?.into_iter();
        let condemned = condemned.filter_map(|(key, _)| match key {
            Key::Condemned(pack) => Some(pack),
            _ => None,
        });
        Ok(condemned.collect())
    }

    /// Reads the lists of all packs. Whoever is to rely on them has to hold a lease before.
    pub(crate) async fn catalog(&self) -> Result<Catalog, StoreError> {
        let condemned = self.condemned().await?;
        let packs = self.packs().await?;
        let mut catalog = Catalog {
            condemned,
            packs,
            ..Catalog::default()
        };
        let wanted: Vec<_> = catalog
            .packs
            .iter()
            .filter(|(pack, _)| !catalog.condemned.contains(*pack))
            .map(|(pack, meta)| (*pack, *meta))
            .collect();
        let mut lists = stream::iter(wanted)
            .map(|(pack, meta)| async move {
                let list = self.pack_index(pack, meta).await;
                list.map(|list| (pack, list))
            })
            .buffer_unordered(PARALLEL);
        let current = self.keyring().current().id();
        while let Some((pack, list)) = lists.try_next().await? {
            match list {
                // Those of another key have names that nothing has today.
                Ok(Some(list)) if list.data_key == current => catalog.blocks.add(&list),
                Ok(_) => {}
                Err(error) => catalog.unreadable.push((pack, error)),
            }
        }
        drop(lists);
        Ok(catalog)
    }

    /// The list of a pack's blocks; `None` if the pack goes away meanwhile. One without an index object is
    /// read from its end, and gets its index object.
    pub(crate) async fn pack_index(
        &self,
        pack: PackId,
        meta: Meta,
    ) -> Result<Result<Option<PackIndex>, PackError>, StoreError> {
        let key = Key::Index(pack);
        match self.backend().get(&key, None, MAX_INDEX_OBJECT).await {
            Ok(object) => {
                let list = PackIndex::decode(pack, &object, self.keyring());
                return Ok(list.and_then(|list| match list.size == meta.size {
                    true => Ok(Some(list)),
                    false => Err(PackError::Damaged {
                        pack,
                        reason: "it has another size than its index says",
                    }),
                }));
            }
            Err(BackendError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match self.adopt(pack, meta.size).await {
            Ok(list) => Ok(Ok(Some(list))),
            Err(StoreError::Backend(BackendError::NotFound { .. })) => Ok(Ok(None)),
            Err(StoreError::Pack(error)) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// Gives an index object to a pack without one: whoever wrote it died between the two.
    async fn adopt(&self, pack: PackId, size: u64) -> Result<PackIndex, StoreError> {
        let (list, object) = self.pack_end(pack, size).await?;
        let key = Key::Index(pack);
        match self.backend().put(&key, object, Existing::Keep, &[]).await {
            Ok(()) | Err(BackendError::Exists { .. }) => Ok(list),
            Err(error) => Err(error.into()),
        }
    }

    /// The list of blocks in a pack itself, and the index object that it should have.
    pub(crate) async fn pack_end(
        &self,
        pack: PackId,
        size: u64,
    ) -> Result<(PackIndex, Bytes), StoreError> {
        let damaged = |reason| PackError::Damaged { pack, reason };
        let key = Key::Pack(pack);
        let part = async |range: std::ops::Range<u64>| {
            let limit = range.end - range.start;
            self.backend().get(&key, Some(range), limit).await
        };
        let footer = size.checked_sub(FOOTER as u64);
        let footer = footer.filter(|start| *start > HEADER as u64);
        let footer = footer.ok_or_else(|| damaged("it is shorter than any pack"))?;
        let footer = part(footer..size).await?;
        let tail = part(PackIndex::tail(pack, size, &footer)?).await?;
        let header = part(0..HEADER as u64).await?;
        let list = PackIndex::from_pack(pack, size, &header, &tail, self.keyring())?;
        let object = PackIndex::object(size, &header, &tail);
        Ok((list, object))
    }
}
