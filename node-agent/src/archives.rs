//! Archives that engines leave: read for a restore, and taken into a store where the administrator's settings say so.
//!
//! ```text
//! FOLDER/x.tar ── unchanged since the last look, open for nobody ──▶ store ──▶ noted in STATE/archives ──▶ kept, or removed in time
//!                     └ refused ──▶ FOLDER/rocferry-damaged/x.tar, and x.tar.reason beside it
//! ```
//!
//! The checkpoint that an archive becomes has a name that follows from the file: an agent that is killed between storing and
//! noting finds it stored already.

mod file;
mod notes;
mod take;
mod unpack;
mod watch;

pub(crate) use unpack::{look, unpack};
pub(crate) use watch::Watcher;
