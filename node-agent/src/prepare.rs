//! Restoring a pod through the runtime wrapper: everything that can be done before its containers are made.
//!
//! ```text
//! prepare: manifest → signature → preflight → journal → files → GPUs → tickets → restore.json
//! (the engine makes the containers; the wrapper restores them, held)
//! decide → thaw: pod frozen → tickets used up → containers thawed → pod thawed
//! discard: tickets → files
//! ```
//!
//! Everything of a pod lies in `STATE/restores/UID`. A preparation that fails leaves nothing.

mod args;
mod discard;
mod fences;
mod folder;
mod status;
mod thaw;
mod tickets;

pub(crate) use args::Args;
pub(crate) use discard::{DiscardArgs, discard_unfinished};
pub(crate) use fences::{FenceArgs, UnfenceArgs};
pub use folder::{Prepared, PreparedContainer, Restores};
pub(crate) use status::{lines, shown};
pub(crate) use thaw::{finish, take_back, thaw};
