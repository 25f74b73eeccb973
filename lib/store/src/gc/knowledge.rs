//! What a collection has to know.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use rocferry_image::manifest::{CheckpointId, PackId};

use super::PARALLEL;
use crate::backend::Meta;
use crate::envelope::{Condemned, Lease, TrustPolicy};
use crate::{Key, Kind, LeaseId, Store, StoreError};

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    /// Packs with an index.
    pub(super) indexes: Vec<PackId>,
    /// Since when packs are condemned; `None` where that cannot be read.
    pub(super) condemned: HashMap<PackId, Option<u64>>,
    /// All packs.
    pub(super) packs: HashMap<PackId, Meta>,
    /// All leases, those that ran out as well.
    pub(super) leases: BTreeMap<LeaseId, Lease>,
    /// All checkpoints.
    pub(super) checkpoints: HashSet<CheckpointId>,
    /// Packs that they need.
    pub(super) needed: HashSet<PackId>,
}

impl Store {
    /// Reads it, in the order that the [module](super) explains.
    pub(super) async fn knowledge(&self) -> Result<Knowledge, StoreError> {
        let mut known = Knowledge::default();
        for (key, _) in self.backend().list(Kind::Index).await? {
            if let Key::Index(pack) = key {
                known.indexes.push(pack);
            }
        }
        let condemned: Vec<_> = self.condemned().await?.into_iter().collect();
        let times = stream::iter(condemned).map(|pack| self.condemned_since(pack));
        let mut times = std::pin::pin!(times.buffer_unordered(PARALLEL));
        while let Some(found) = times.try_next().await? {
            known.condemned.extend(found);
        }
        known.packs = self.packs().await?;
        self.add_leases(&mut known).await?;
        self.add_manifests(&mut known).await?;
        self.add_leases(&mut known).await?;
        Ok(known)
    }

    /// Since when a pack is condemned; `None` if another collection has just deleted it.
    async fn condemned_since(
        &self,
        pack: PackId,
    ) -> Result<Option<(PackId, Option<u64>)>, StoreError> {
        match self.small::<Condemned>(&Key::Condemned(pack)).await {
            Ok(condemned) => Ok(condemned.map(|condemned| (pack, Some(condemned.created_ms)))),
            Err(StoreError::Backend(error)) => Err(error.into()),
            Err(error) => {
                tracing::warn!(%pack, %error, "Condemnation not readable; written again");
                Ok(Some((pack, None)))
            }
        }
    }

    async fn add_leases(&self, known: &mut Knowledge) -> Result<(), StoreError> {
        // One that cannot be read may hold anything.
        let leases = self.all_small().await.map_err(incomplete)?;
        known
            .leases
            .extend(leases.into_iter().filter_map(|(key, lease)| match key {
                Key::Lease(id) => Some((id, lease)),
                _ => None,
            }));
        Ok(())
    }

    async fn add_manifests(&self, known: &mut Knowledge) -> Result<(), StoreError> {
        let ids = self.checkpoint_ids().await?;
        let ids = ids.into_iter().map(|(id, _)| id).collect();
        // Whoever signed it, it needs its packs.
        let anybody = TrustPolicy::default();
        let read = self.digest_checkpoints(ids, anybody, |object| object.manifest.packs);
        let mut read = std::pin::pin!(read);
        while let Some((id, packs)) = read.next().await {
            known.needed.extend(packs.map_err(incomplete)?);
            known.checkpoints.insert(id);
        }
        Ok(())
    }
}

fn incomplete(source: StoreError) -> StoreError {
    let source = Box::new(source);
    StoreError::Collection { source }
}
