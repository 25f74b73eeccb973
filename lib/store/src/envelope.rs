//! Objects around what they hold: what they are, whose key protects them, and a check value, so that every
//! damage is noticed and no object can stand in for another.
//!
//! A [manifest](ManifestObject) is compressed, sealed if the store is, and may be signed; a [`TrustPolicy`]
//! says whose signatures are wanted and for whom a checkpoint must be made. The [small objects](SmallObject)
//! (the store's description, leases, pins, condemnations) are protected, but not secret.

mod error;
mod manifest;
mod object;
mod sign;
mod small;
mod trust;

pub use error::EnvelopeError;
pub use manifest::{MAX_MANIFEST_OBJECT, ManifestObject};
pub use object::{ObjectError, data_key_of};
pub(crate) use object::{close_object, data_key_from, open_object, public_keys};
pub use sign::{PublicKey, SignError, Signer};
pub use small::{
    Condemned, Lease, LeaseKind, MAX_SMALL_OBJECT, Pin, SmallObject, StoreDescription,
};
pub use trust::{ExpectedBinding, TrustError, TrustPolicy};
