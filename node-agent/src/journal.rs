//! What this node has frozen, holds and has under way, on disk before it is done.
//!
//! A record is written and synced before the act, so that after a crash of the agent (or of the machine) [`recover`]
//! finds every container that may be frozen, half dumped or half restored. Whose record an agent works on is told by
//! a lock that the kernel drops with the process.

mod decide;
mod entry;
mod error;
mod record;
mod recover;

pub(crate) use entry::now_ms;
pub use entry::{Entry, Journal};
pub use error::JournalError;
pub use record::{After, Answering, Phase, PodPart, PodParts, Record, Subject, Work};
pub(crate) use recover::Args as RecoverArgs;
