//! The checkpoint store: content-addressed, on a directory, an S3 bucket or an OCI registry.
//!
//! A checkpoint is a [`Manifest`](rocferry_image::manifest::Manifest) and the packs that it names. Packs hold
//! blocks of at most 4 MiB; a block is known by a keyed hash of its content, so that what the store has is
//! never sent again. The manifest is written last: what no manifest names does not exist.
//!
//! Layout below the store's URL and the tenant's prefix, see [`Key`]:
//!
//! | key | content | written |
//! |---|---|---|
//! | `store` | version of the layout, size of blocks | once, by whoever comes first |
//! | `keys/ID` | a data key, wrapped for its recipients | once |
//! | `packs/ID` | blocks, then their list | in one stream, before its index |
//! | `index/ID` | the list of blocks of that pack again | after its pack is acknowledged |
//! | `checkpoints/ID` | a manifest | after all its packs are acknowledged |
//! | `pins/ID` | nothing; the checkpoint is not to be deleted | by an administrator |
//! | `leases/ID` | what a running upload or restore relies on | at its start, renewed while it runs |
//! | `condemned/ID` | nothing; the pack is about to be deleted | by garbage collection |
//!
//! The store knows nothing of GPUs: whoever writes gives it cut points, and it labels what lies between them.
#![forbid(unsafe_code)]

mod aligned;
pub mod archive;
pub mod backend;
pub mod cache;
mod catalog;
mod chain;
mod checkpoint;
mod delete;
pub mod diff;
pub mod envelope;
pub mod gc;
pub mod inspect;
pub mod interchange;
mod key;
mod lease;
mod list;
pub mod pack;
mod pin;
mod progress;
pub mod pull;
pub mod push;
pub mod retention;
pub mod seal;
mod serial;
mod store;
pub mod verify;

pub use key::{Key, Kind, LeaseId, StoreName};
pub use list::{Listed, Overview};
pub use progress::{Progress, Snapshot};
pub use store::{Store, StoreError, StoreOptions};
