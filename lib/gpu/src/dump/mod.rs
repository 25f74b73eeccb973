//! Dump: from the first GPU file that CRIU shows to the UNPAUSE in `exit`.

mod contents;
mod gem;
mod images;
mod mappings;
mod process;
mod session;

pub use session::DumpSession;
