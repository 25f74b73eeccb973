//! Deleting checkpoints.

use rocferry_image::manifest::CheckpointId;

use crate::envelope::Pin;
use crate::{Key, Store, StoreError};

impl Store {
    /// Deletes a checkpoint: its manifest. What nothing else needs of its packs goes with the next
    /// [collections](Store::gc). A manifest that cannot be read can be deleted.
    ///
    /// Nothing makes looking for pins and deleting one step. A pin that comes between the two comes too late:
    /// whoever pins is told so, and so is whoever deletes, if the pin is seen.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`]; [`StoreError::Pinned`], and nothing is deleted; [`StoreError::Object`]
    /// for a pin that cannot be read, which counts; [`StoreError::PinnedTooLate`]; [`StoreError::Backend`].
    pub async fn delete(&self, id: &CheckpointId) -> Result<(), StoreError> {
        self.check_exists(id).await?;
        // As late as can be.
        if let Some(Pin { reason, .. }) = self.small(&Key::Pin(id.clone())).await? {
            let checkpoint = id.clone();
            return Err(StoreError::Pinned { checkpoint, reason });
        }
        self.backend().delete(&Key::Checkpoint(id.clone())).await?;
        match self.small(&Key::Pin(id.clone())).await {
            Ok(Some(Pin { reason, .. })) => {
                let checkpoint = id.clone();
                Err(StoreError::PinnedTooLate { checkpoint, reason })
            }
            Ok(None) => Ok(()),
            Err(error) => {
                // Deleted is what was asked for.
                tracing::warn!(checkpoint = %id, %error, "Whether it was pinned meanwhile is not known");
                Ok(())
            }
        }
    }
}
