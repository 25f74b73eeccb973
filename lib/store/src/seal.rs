//! Keys, and what is done with them.
//!
//! A store that is sealed has [data keys](DataKey): 32 random bytes each, which never leave the process but
//! wrapped, for [age](https://age-encryption.org) recipients or by a key from a file (`keys/ID`, see
//! [`KeyObject`]). From a data key several keys are derived, see [`Keys`]: one names blocks, one seals, one
//! makes check values. Names are keyed, so equal content of two tenants, or before and after a rotation,
//! does not look equal. A store without sealing has the same [`Keys`], made from its salt: they tell damage,
//! but keep no secrets.
//!
//! **Which keys count.** Whoever can write to the store could put a data key there that they know, wrapped
//! for the right recipients: wrapping needs public keys alone. So the store's description names its first
//! key, and every later one is endorsed by a key before it; others are never used. Who does not trust the
//! description either pins the key, see [`KeyConfig::pin`].
//!
//! **Rotation.** [`Keyring::rotate`] adds a key. The newest one is for new checkpoints, which then share no
//! block with older ones; the older keys stay as long as there is something to read with them.

mod config;
mod data_key;
mod error;
mod key_object;
mod keyring;
mod keys;
mod open;
mod random;

pub use config::{KeyConfig, WrappingKey, WrappingKeyId};
pub use data_key::DataKey;
pub use error::SealError;
pub use key_object::KeyObject;
pub use keyring::Keyring;
pub(crate) use keys::SEALED;
pub use keys::{Keys, Piece, Salt};
pub(crate) use open::describe;
pub use open::open_store;
pub use random::{RandomError, new_lease_id, new_pack_id, random};

#[cfg(test)]
mod tests;
