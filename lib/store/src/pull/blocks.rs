//! Decoders that are not in use.

use std::sync::{Mutex, PoisonError};

use crate::StoreError;
use crate::aligned::Aligned;
use crate::pack::BlockDecoder;

/// Decoders keep their buffers, so they are used again: as many as there are threads with a block.
#[derive(Debug, Default)]
pub(super) struct Decoders(Mutex<Vec<Lent>>);

/// A decoder, and memory for a block that it does not put into its own.
#[derive(Debug)]
struct Lent {
    decoder: BlockDecoder,
    copy: Aligned,
}

impl Decoders {
    /// Lends a decoder and the memory.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut BlockDecoder, &mut Aligned) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let lent = self.locked().pop();
        let mut lent = match lent {
            Some(lent) => lent,
            None => Lent {
                decoder: BlockDecoder::new()?,
                copy: Aligned::default(),
            },
        };
        let done = work(&mut lent.decoder, &mut lent.copy);
        self.locked().push(lent);
        done
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<Lent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
