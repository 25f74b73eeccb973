//! The node agent and its command line.
//!
//! `rocferry-agent topology` says what the GPUs of a machine are and how they are linked, and whether a checkpoint can be
//! restored on them (`docs/topology.md`); `rocferry-agent image` looks after checkpoints in a store (`docs/store.md`);
//! `checkpoint`, `restore`, `freeze`, `thaw`, `status` and `recover` work on containers, and `serve` looks after them for as
//! long as the node runs (`docs/agent.md`).
//!
//! Each command renders its whole answer before anything is written. Errors say which file they are about;
//! [`Error::next_step`] says what to do.
#![forbid(unsafe_code)]

mod archives;
mod checkpoint;
mod cli;
mod counters;
pub mod decision;
mod error;
mod fault;
mod format;
pub mod freeze;
pub mod hook;
mod http;
mod image;
pub mod install;
mod interrupt;
pub mod journal;
pub mod layer;
mod node;
pub mod pod;
mod preflight;
pub mod prepare;
pub mod probes;
pub mod process;
pub mod restore;
pub mod runtime;
mod serve;
mod settings;
pub mod spec;
pub mod ticket;
mod topology;
pub mod wrapper;

pub use cli::{Answer, Cli, Exit, LogFormat};
pub use error::{Error, causes};
