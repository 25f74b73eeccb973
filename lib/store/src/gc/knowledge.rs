//! What a collection has to know.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::StreamExt;
use rocferry_image::manifest::{CheckpointId, PackId};

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
        for pack in self.condemned().await? {
            let since = match self.small::<Condemned>(&Key::Condemned(pack)).await {
                Ok(Some(condemned)) => Some(condemned.created_ms),
                // Another collection has just deleted the pack.
                Ok(None) => continue,
                Err(StoreError::Backend(error)) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%pack, %error, "Condemnation not readable; written again");
                    None
                }
            };
            known.condemned.insert(pack, since);
        }
        known.packs = self.packs().await?;
        self.add_leases(&mut known).await?;
        self.add_manifests(&mut known).await?;
        self.add_leases(&mut known).await?;
        Ok(known)
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
