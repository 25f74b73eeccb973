//! Restore: in the task from its first GPU file on, and in CRIU when every task stands.

mod board;
mod contents;
mod gpus;
mod mappings;
mod nodes;
mod predecessor;
mod result;
mod session;
mod target;
mod task;
mod tids;

pub use board::{TaskBoard, TaskSlot, TaskStage};
pub use mappings::{MappingFile, VmaAnswer};
pub use session::RestoreSession;
