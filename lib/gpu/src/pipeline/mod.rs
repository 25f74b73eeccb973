//! Bulk data between image files and GPU memory.
//!
//! Three stages, each behind a small trait: a [`FileEngine`] reads or writes, a ring of [`Slot`]s holds the
//! bytes, a [`CopyEngine`] moves them between a slot and a buffer object. One GPU has one ring, registered
//! once whatever the number of objects, and one copy lane; the thread that calls [`load`] or [`save`] drives
//! the lane of the first GPU. Readers (or writers) are threads that live within the call, or none at all:
//! then the calling thread reads slot i+1 while the engine copies slot i.
//!
//! *Memory*: the rings, within [`Budget`], whatever the size of an object. *Errors*: the first one wins,
//! stops all GPUs, and names the object; every thread is joined first. *Time*: a copy has a time-out,
//! and so has a stream that moves no byte; regular files take as long as the kernel does. *Integrity*: [`save`] returns the BLAKE3 of each block of [`BLOCK`] bytes, which [`load`]
//! checks before the last bytes of the block go to the GPU. *Logging*: none here, since CRIU's log belongs to
//! the hook's thread; [`Report::events`] carries the timing.

mod budget;
mod copy;
mod digest;
mod error;
mod event;
mod file;
mod flow;
mod lane;
mod load;
mod plan;
mod ring;
mod run;
mod save;
mod signals;
pub mod testing;
mod transfer;

pub use budget::{Budget, RingLayout};
pub use copy::{
    Attached, CopyEngine, CopyError, CopyJob, CopyPart, Direction, MAX_PARTS, SdmaEngine, Ticket,
    Waited,
};
pub use digest::{BLOCK, BlockDigest, BlockIndex};
pub use error::PipelineError;
pub use event::{Event, Stage};
pub use file::{FdFile, FileEngine, FileError, Order, StreamFile};
pub use load::load;
pub use ring::{Slot, Staging};
pub use save::save;
pub use transfer::{BoSpec, GpuTransfer, Options, Report};
