//! What checkpoints there are.

use std::collections::HashMap;

use futures_util::StreamExt;
use rocferry_image::manifest::{Binding, CheckpointId, DataKeyId, Totals};

use crate::envelope::{ManifestObject, Pin, PublicKey, TrustPolicy};
use crate::{Key, Store, StoreError};

/// A checkpoint of a store.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub id: CheckpointId,
    /// Bytes of its manifest in the store.
    pub manifest_size: u64,
    /// Why it is not to be deleted; `None` if it may be. A pin that cannot be read counts, and says so.
    pub pin: Option<Result<Pin, StoreError>>,
    /// What its manifest says, or why it cannot be read.
    pub overview: Result<Overview, StoreError>,
}

/// What a manifest says, but for its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// When it was finished: milliseconds since 1970.
    pub created_ms: u64,
    /// The checkpoint before it.
    pub parent: Option<CheckpointId>,
    /// Whom it may be restored for.
    pub binding: Binding,
    /// The node that it was made on.
    pub node: Option<String>,
    /// The image of its container.
    pub image: Option<String>,
    /// The data key that seals it; `None` without sealing.
    pub data_key: Option<DataKeyId>,
    /// Whose signature it carries. Whether that key is to be trusted is another question.
    pub signer: Option<PublicKey>,
    /// Number of its packs.
    pub packs: usize,
    /// Its sizes.
    pub totals: Totals,
}

impl Overview {
    /// Of this manifest.
    #[must_use]
    pub fn of(object: &ManifestObject) -> Self {
        let manifest = &object.manifest;
        Self {
            created_ms: manifest.created_ms,
            parent: manifest.parent.clone(),
            binding: manifest.binding.clone(),
            node: manifest.source.node.clone(),
            image: manifest.source.image.clone(),
            data_key: manifest.data_key,
            signer: object.signer,
            packs: manifest.packs.len(),
            totals: manifest.totals(),
        }
    }
}

impl Store {
    /// All checkpoints, the newest first: by their names, which begin with the time. One whose manifest cannot
    /// be read is among them.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when the store cannot be listed.
    pub async fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut pins: HashMap<_, _> = self.pins().await?.into_iter().collect();
        let found = self.checkpoint_ids().await?;
        let sizes: HashMap<_, _> = found
            .iter()
            .map(|(id, meta)| (id.clone(), meta.size))
            .collect();
        let ids = found.into_iter().map(|(id, _)| id).collect();
        let anybody = TrustPolicy::default();
        let read = self.digest_checkpoints(ids, anybody, |object| Overview::of(&object));
        let mut list: Vec<_> = read
            .map(|(id, overview)| Listed {
                manifest_size: sizes.get(&id).copied().unwrap_or(0),
                pin: pins.remove(&id),
                id,
                overview,
            })
            .collect()
            .await;
        list.sort_by(|one, other| other.id.cmp(&one.id));
        Ok(list)
    }

    /// Fails unless there is this checkpoint. Its manifest is not read.
    pub(crate) async fn check_exists(&self, id: &CheckpointId) -> Result<(), StoreError> {
        match self.backend().head(&Key::Checkpoint(id.clone())).await? {
            Some(_) => Ok(()),
            None => Err(StoreError::NoCheckpoint {
                checkpoint: id.clone(),
            }),
        }
    }
}
