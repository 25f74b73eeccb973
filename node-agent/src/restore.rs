//! `rocferry-agent restore`: gets a checkpoint from a store and restores it.
//!
//! ```text
//! manifest → preflight → journal → files → topology check → (bundle) → CRIU → is it whole? → journal closed
//! ```
//!
//! A failure leaves nothing: what was restored so far is killed, all of it.

mod args;
mod bundle;
mod criu;

pub(crate) use args::{Args, dumped_tcp};

/// Beginning of the names of cgroups in which trees without a runtime are restored.
pub(crate) const CGROUP_PREFIX: &str = "rocferry-restore-";
