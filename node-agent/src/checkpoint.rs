//! `rocferry-agent checkpoint`: dumps a container and stores it.
//!
//! ```text
//! preflight → journal → (freeze) → CRIU ──────────→ files → (thaw) → rest of the upload → listed → outcome
//!                                    └ the upload follows what it writes ┘
//! ```
//!
//! Until the checkpoint is listed every failure ends with the container as it was before. What becomes of it
//! afterwards (it goes on, stays frozen, ends) is done after the journal knows that it is stored.

mod args;
mod dump;
mod facts;
mod outcome;
mod pod;
mod rootfs;
mod saved;
mod store;

pub(crate) use args::{Args, make_private};
pub(crate) use dump::heal;
pub(crate) use facts::TCP;
pub(crate) use outcome::{KILL_LIMIT, end, run_again};
pub(crate) use pod::{parts, subject};
pub(crate) use saved::{ROOTFS_DIFF, SHARED_MEMORY};
