//! Decoders that are not in use.

use std::sync::{Mutex, PoisonError};

use crate::StoreError;
use crate::pack::BlockDecoder;

/// Decoders keep their buffers, so they are used again: as many as there are threads that decode.
#[derive(Debug, Default)]
pub(super) struct Decoders(Mutex<Vec<BlockDecoder>>);

impl Decoders {
    /// Lends a decoder.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut BlockDecoder) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let lent = self.locked().pop();
        let mut decoder = match lent {
            Some(decoder) => decoder,
            None => BlockDecoder::new()?,
        };
        let done = work(&mut decoder);
        self.locked().push(decoder);
        done
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<BlockDecoder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
