//! Tickets and fences on disk: what the runtime wrapper is to do with a container that is about to be created.
//!
//! A **ticket** says that a container is to be restored from a checkpoint in place of being created. A **fence** says that a
//! container is under migration and must not be created at all. Both are small JSON files below a folder that only root
//! can enter; the agent writes them, the wrapper reads them and moves a ticket through its states:
//!
//! ```text
//!          create                  CRIU is done            the agent thaws
//! Ready ───────────▶ Restoring ──┬───────────────▶ Held ──────────────────▶ Used
//!   ▲                    │       └── not held ──────────────────────────────▶ Used
//!   └────────────────────┘ the restore failed
//! ```
//!
//! A ticket is used up at the thaw and not before: until then each further `create` of the container restores again.
//! Every change is on disk before it counts (temporary file, fsync, rename, fsync of the folder).

mod content;
mod error;
mod fence;
mod files;
mod folder;
mod lock;
mod name;
#[cfg(test)]
mod tests;
mod unpacked;

pub use content::{
    AfterUse, CriuOptions, ExpectedDevice, ExpectedMount, SavedVolume, State, TICKET_VERSION, Tcp,
    Ticket,
};
pub use error::TicketError;
pub use fence::{FENCE_VERSION, Fence};
pub(crate) use files::{read_bounded, remove_synced, write_whole};
pub use folder::{DEFAULT_FOLDER, TicketFolder};
pub use lock::TicketLock;
pub use name::{ContainerId, ContainerName, InvalidName, Key, PodUid};
pub use unpacked::{Place, Unpacked};
