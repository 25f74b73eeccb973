//! What the plugin's hooks do: dump, restore and resume of the GPU side of a process.
//!
//! The C ABI of CRIU stays in `plugin`; this crate sees CRIU only through [`Host`]. Flow of a dump:
//! [`DumpSession::dump_file`] pauses the owner of the first GPU file that CRIU shows, takes the kernel's
//! checkpoint of it and copies the contents of its BOs through [`pipeline`]; the queues run again only in
//! [`DumpSession::finish`], which CRIU calls on success and on failure, after all host memory is saved.
//! Flow of a restore: [`RestoreSession::restore_file`] runs in the restored task, which gives the kernel its
//! records back and fills the BOs; [`RestoreSession::resume`] runs in CRIU once every task stands.
//!
//! *Consistency*: no GPU queue of the process runs between pause and `finish`. *Crash*: a killed CRIU leaves
//! the process paused; the kernel undoes that only on an UNPAUSE by a ptracer, and the log line of a failing
//! one says so. *Retry*: nothing is retried here but a wait for a predecessor that is still being torn down.
//! *Completion*: contents are whole before the task's hook returns, so every error can still fail the restore.

#![cfg_attr(not(test), warn(clippy::expect_used))]

pub mod pipeline;

mod bulk;
mod config;
mod device;
mod dump;
mod error;
mod host;
mod outcome;
mod restore;
mod threads;
mod tracee;

pub use config::Config;
pub use dump::DumpSession;
pub use error::{DumpError, RestoreError, chain};
pub use host::{FdStoreId, Host, LogLevel};
pub use outcome::Outcome;
pub use restore::{MappingFile, RestoreSession, TaskBoard, TaskSlot, TaskStage, VmaAnswer};
