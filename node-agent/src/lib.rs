//! The node agent and its command line.
//!
//! Today that is `rocferry-agent topology`: what the GPUs of a machine are and how they are linked, and whether a
//! checkpoint can be restored on them (`docs/topology.md`); and `rocferry-agent image`: checkpoints in a store
//! (`docs/store.md`).
//!
//! Each command renders its whole answer before anything is written. Errors say which file they are about;
//! [`Error::next_step`] says what to do.
#![forbid(unsafe_code)]

mod cli;
mod error;
mod format;
mod image;
pub mod ticket;
mod topology;
pub mod wrapper;

pub use cli::{Answer, Cli, Exit};
pub use error::{Error, causes};
