//! Reading manifests.

use futures_util::{Stream, StreamExt, stream};
use rocferry_image::manifest::CheckpointId;

use crate::backend::{BackendError, Meta};
use crate::envelope::{MAX_MANIFEST_OBJECT, ManifestObject, TrustPolicy};
use crate::{Key, Kind, Store, StoreError};

/// Manifests that are read at a time. One can take hundreds of megabytes.
const PARALLEL: usize = 4;

impl Store {
    /// The manifest of a checkpoint and who signed it.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`]; [`StoreError::Envelope`] if it is damaged or `policy` does not take it;
    /// [`StoreError::Backend`].
    pub async fn checkpoint(
        &self,
        id: &CheckpointId,
        policy: &TrustPolicy,
    ) -> Result<ManifestObject, StoreError> {
        self.digest_checkpoint(id, policy, |object| object).await
    }

    /// What `digest` makes of a manifest. Both decoding and that happen on a thread that may wait, and only
    /// what comes of it is kept.
    pub(crate) async fn digest_checkpoint<T: Send + 'static>(
        &self,
        id: &CheckpointId,
        policy: &TrustPolicy,
        digest: impl FnOnce(ManifestObject) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let key = Key::Checkpoint(id.clone());
        let object = match self.backend().get(&key, None, MAX_MANIFEST_OBJECT).await {
            Ok(object) => object,
            Err(BackendError::NotFound { .. }) => {
                let checkpoint = id.clone();
                return Err(StoreError::NoCheckpoint { checkpoint });
            }
            Err(error) => return Err(error.into()),
        };
        let (store, id, policy) = (self.clone(), id.clone(), policy.clone());
        let decoded = tokio::task::spawn_blocking(move || {
            ManifestObject::decode(&id, &object, store.keyring(), &policy).map(digest)
        });
        Ok(decoded.await??)
    }

    /// All checkpoints, whether their manifests can be read or not.
    pub(crate) async fn checkpoint_ids(&self) -> Result<Vec<(CheckpointId, Meta)>, StoreError> {
        let all = self.backend().list(Kind::Checkpoint).await?.into_iter();
        let all = all.filter_map(|(key, meta)| match key {
            Key::Checkpoint(id) => Some((id, meta)),
            _ => None,
        });
        Ok(all.collect())
    }

    /// What `digest` makes of each of these manifests, in any order. One that goes away meanwhile is left out.
    pub(crate) fn digest_checkpoints<T: Send + 'static>(
        &self,
        ids: Vec<CheckpointId>,
        policy: TrustPolicy,
        digest: impl FnOnce(ManifestObject) -> T + Clone + Send + 'static,
    ) -> impl Stream<Item = (CheckpointId, Result<T, StoreError>)> + '_ {
        stream::iter(ids)
            .map(move |id| {
                let (digest, policy) = (digest.clone(), policy.clone());
                async move {
                    let read = self.digest_checkpoint(&id, &policy, digest).await;
                    (id, read)
                }
            })
            .buffer_unordered(PARALLEL)
            .filter(|(_, read)| {
                let gone = matches!(read, Err(StoreError::NoCheckpoint { .. }));
                std::future::ready(!gone)
            })
    }
}
