//! Freezing: the cgroup (version 2) of a container, and the verbs `freeze`, `thaw`, `stop` and `status`.
//!
//! The files of the cgroup are written here and not by a runtime: `runc resume` below a frozen parent never returns,
//! and no runtime says that all tasks have really stopped.

mod cgroup;
mod error;
mod pod;
mod stop;
mod verb;

pub use cgroup::Cgroup;
pub use error::FreezeError;
pub(crate) use stop::StopArgs;
pub(crate) use verb::{FreezeArgs, StatusArgs, ThawArgs};
