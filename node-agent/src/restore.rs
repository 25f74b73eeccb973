//! `rocferry-agent restore`: gets a checkpoint from a store or an archive and restores it.
//!
//! ```text
//! manifest → preflight → journal → files → topology check → (bundle, archive for Podman) → CRIU → is it whole? → journal closed
//! ```
//!
//! A failure leaves nothing: what was restored so far is killed, all of it.

mod args;
mod bundle;
mod compare;
mod criu;
mod devices;
mod origin;
mod podman;

pub(crate) use args::{Args, dumped_tcp};

/// Beginning of the names of cgroups in which trees without a runtime are restored.
pub(crate) const CGROUP_PREFIX: &str = "rocferry-restore-";
