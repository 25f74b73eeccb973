//! The GPU stage.

mod packet;
mod sdma;
mod space;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rocferry_kfd::KfdError;
use rustix::io::Errno;
pub use sdma::SdmaEngine;

use super::{RingLayout, Slot};

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the slot into the buffer object.
    ToGpu,
    /// From the buffer object into the slot.
    FromGpu,
}

/// The word that fits between "copy" and the object.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToGpu => "into",
            Self::FromGpu => "from",
        })
    }
}

/// A range of a buffer object that an engine can reach. The number is the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attached(pub u64);

/// The most parts of one copy.
pub const MAX_PARTS: usize = 64;

/// One copy between a slot and one or several objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyJob<'a> {
    /// What is copied: at least one part and [`MAX_PARTS`] at most. They do not overlap.
    pub parts: &'a [CopyPart],
    /// Which way.
    pub direction: Direction,
}

/// The share of one object in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyPart {
    /// The object's range.
    pub bo: Attached,
    /// First byte within the attached range.
    pub offset: u64,
    /// First byte within the slot.
    pub slot_offset: usize,
    /// Bytes.
    pub len: usize,
}

/// A copy under way, with the slot that it uses.
#[derive(Debug)]
pub struct Ticket {
    /// The slot; not to be touched before the copy is done.
    pub(super) slot: Slot,
    /// The engine's number of the copy.
    pub(super) job: u64,
}

/// What waiting for a copy brought.
#[derive(Debug)]
pub enum Waited {
    /// It is done, and the slot free again.
    Done(Slot),
    /// Not yet.
    Busy(Ticket),
}

/// Moves bytes between slots and the buffer objects of one GPU: one lane, on which copies run one after the
/// other in the order of submission. Used by one thread at a time. After a copy that did not end in time it is
/// only dropped: that gives up whatever is attached, and cancels the copy.
pub trait CopyEngine: Send {
    /// Allocates and registers the ring. Called once before a transfer; a second call gives a new ring and
    /// gives up the old one, whose slots must be gone.
    ///
    /// # Errors
    /// [`CopyError`].
    fn stage(&mut self, layout: RingLayout) -> Result<Vec<Slot>, CopyError>;

    /// Makes `len` bytes of an object, from `offset` on, reachable. The descriptor is not used afterwards.
    ///
    /// # Errors
    /// [`CopyError`].
    fn attach(
        &mut self,
        dmabuf: BorrowedFd<'_>,
        offset: u64,
        len: u64,
    ) -> Result<Attached, CopyError>;

    /// Starts a copy.
    ///
    /// # Errors
    /// [`CopyError`]; the slot is then lost.
    fn submit(&mut self, slot: Slot, job: CopyJob<'_>) -> Result<Ticket, CopyError>;

    /// Waits for a copy, at most for `limit`.
    ///
    /// # Errors
    /// [`CopyError`] when the copy failed; the slot is then lost.
    fn wait(&mut self, ticket: Ticket, limit: Duration) -> Result<Waited, CopyError>;

    /// Gives up a range of an object. No copy of it is under way.
    ///
    /// # Errors
    /// [`CopyError`].
    fn detach(&mut self, bo: Attached) -> Result<(), CopyError>;
}

/// Why a copy engine failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The kernel refused an operation on the render node.
    #[error(transparent)]
    Kernel(#[from] KfdError),
    /// Another call failed.
    #[error("{op} failed")]
    Io {
        /// What was tried.
        op: &'static str,
        /// What the kernel answered.
        #[source]
        errno: Errno,
    },
    /// The ring's memory is smaller than its layout.
    #[error("Ring needs {wanted} bytes and got {got}")]
    BadRing {
        /// Bytes needed.
        wanted: usize,
        /// Bytes there.
        got: usize,
    },
    /// No free GPU addresses are left.
    #[error("No {bytes} bytes of GPU addresses are free")]
    NoAddresses {
        /// Bytes needed.
        bytes: u64,
    },
    /// The request does not fit what the engine knows.
    #[error("Copy engine cannot do this: {what}")]
    BadJob {
        /// Why.
        what: &'static str,
    },
}
