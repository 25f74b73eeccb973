//! The secret of a store.

use std::fmt;

use rocferry_image::manifest::DataKeyId;
use zeroize::{Zeroize, Zeroizing};

use super::{RandomError, random};

/// 32 bytes that are wiped from memory when dropped.
pub(super) type Secret = Zeroizing<[u8; 32]>;

/// A data key. Wiped from memory when dropped, and never printed.
pub struct DataKey(Secret);

impl DataKey {
    /// A new one.
    ///
    /// # Errors
    /// [`RandomError`].
    pub fn generate() -> Result<Self, RandomError> {
        loop {
            let key = Self(Zeroizing::new(random()?));
            // Objects that are not sealed have zeros in place of an id.
            if key.id() != DataKeyId([0; 8]) {
                return Ok(key);
            }
        }
    }

    /// One that is known already. The caller's copy of the bytes is wiped.
    #[must_use]
    pub fn from_bytes(bytes: &mut [u8; 32]) -> Self {
        let key = Self(Zeroizing::new(*bytes));
        bytes.zeroize();
        key
    }

    /// What it is called: the first bytes of a hash of it.
    #[must_use]
    pub fn id(&self) -> DataKeyId {
        let hash = self.derive("rocferry 2026-11-30 data key id");
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        DataKeyId(id)
    }

    /// A key for one purpose. Nothing follows from it for other purposes, nor for the data key.
    pub(super) fn derive(&self, purpose: &'static str) -> Secret {
        Zeroizing::new(blake3::derive_key(purpose, &*self.0))
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({})", self.id())
    }
}
