//! Pins: checkpoints that are not to be deleted.

use rocferry_image::manifest::CheckpointId;

use crate::backend::Existing;
use crate::envelope::Pin;
use crate::store::now_ms;
use crate::{Key, Kind, Store, StoreError};

/// Most bytes of a reason.
const MAX_REASON: usize = 1024;

impl Store {
    /// Keeps a checkpoint from being deleted. One that is pinned gets the new reason.
    ///
    /// A deletion that runs at the same moment may still win; then this fails.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`]; [`StoreError::Reason`]; [`StoreError::Backend`].
    pub async fn pin(&self, id: &CheckpointId, reason: &str) -> Result<(), StoreError> {
        if reason.len() > MAX_REASON {
            return Err(StoreError::Reason {
                bytes: reason.len(),
                limit: MAX_REASON,
            });
        }
        self.check_exists(id).await?;
        let key = Key::Pin(id.clone());
        let pin = Pin {
            created_ms: now_ms(),
            reason: reason.to_owned(),
        };
        self.put_small(&key, &pin, Existing::Replace).await?;
        // Whoever deletes looks for pins first: a deletion that begins from now on is refused.
        let exists = self.check_exists(id).await;
        if matches!(exists, Err(StoreError::NoCheckpoint { .. })) {
            self.backend().delete(&key).await?;
        }
        exists
    }

    /// Lets a checkpoint be deleted again. Returns whether it was pinned; whether it exists does not matter.
    ///
    /// # Errors
    /// [`StoreError::Backend`].
    pub async fn unpin(&self, id: &CheckpointId) -> Result<bool, StoreError> {
        let key = Key::Pin(id.clone());
        // Not read: one that is damaged has to go as well.
        let pinned = self.backend().head(&key).await?.is_some();
        self.backend().delete(&key).await?;
        Ok(pinned)
    }

    /// All pins, by checkpoint. One that cannot be read counts like any other.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when the store cannot be listed.
    pub async fn pins(&self) -> Result<Vec<(CheckpointId, Result<Pin, StoreError>)>, StoreError> {
        let mut pins = Vec::new();
        for (key, _) in self.backend().list(Kind::Pin).await? {
            let Key::Pin(id) = &key else { continue };
            if let Some(pin) = self.small(&key).await.transpose() {
                pins.push((id.clone(), pin));
            }
        }
        pins.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(pins)
    }
}
