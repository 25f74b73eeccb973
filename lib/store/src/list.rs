//! What checkpoints there are.

use std::collections::HashMap;

use futures_util::StreamExt;
use rocferry_image::manifest::{Binding, CheckpointId, DataKeyId, Totals};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::chain::chain;
use crate::envelope::{ManifestObject, Pin, PublicKey, TrustPolicy};
use crate::inspect::{BoundTo, InspectedTotals};
use crate::serial::display_if;
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// When it was finished: milliseconds since 1970.
    pub created_ms: u64,
    /// The checkpoint before it.
    #[serde(serialize_with = "display_if")]
    pub parent: Option<CheckpointId>,
    /// Whom it may be restored for.
    #[serde(serialize_with = "binding")]
    pub binding: Binding,
    /// The node that it was made on.
    pub node: Option<String>,
    /// The image of its container.
    pub image: Option<String>,
    /// The data key that seals it; `None` without sealing.
    #[serde(serialize_with = "display_if")]
    pub data_key: Option<DataKeyId>,
    /// Whose signature it carries. Whether that key is to be trusted is another question.
    #[serde(serialize_with = "display_if")]
    pub signer: Option<PublicKey>,
    /// Number of its packs.
    pub packs: usize,
    /// Its sizes.
    #[serde(serialize_with = "totals")]
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

/// For scripts: `id`, `manifest_size`, `pinned` (the reason), and either `checkpoint` or `error`.
impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let pinned = self.pin.as_ref().map(|pin| match pin {
            Ok(pin) => pin.reason.clone(),
            Err(error) => chain(error),
        });
        let mut listed = to.serialize_struct("Listed", 5)?;
        listed.serialize_field("id", self.id.as_str())?;
        listed.serialize_field("manifest_size", &self.manifest_size)?;
        listed.serialize_field("pinned", &pinned)?;
        listed.serialize_field("checkpoint", &self.overview.as_ref().ok())?;
        let error = self.overview.as_ref().err();
        listed.serialize_field("error", &error.map(|error| chain(error)))?;
        listed.end()
    }
}

fn binding<S: Serializer>(binding: &Binding, to: S) -> Result<S::Ok, S::Error> {
    BoundTo::of(binding).serialize(to)
}

fn totals<S: Serializer>(totals: &Totals, to: S) -> Result<S::Ok, S::Error> {
    InspectedTotals::of(*totals).serialize(to)
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
