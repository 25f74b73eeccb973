//! When what happened.

use rocferry_topology::UserGpuId;
use rustix::time::{ClockId, clock_gettime};

/// A stage of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// File into slot.
    Read,
    /// Between slot and buffer object.
    Copy,
    /// Slot into file.
    Write,
}

/// One piece of work of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The stage.
    pub stage: Stage,
    /// The GPU.
    pub gpu: UserGpuId,
    /// Position of the object in the list of objects.
    pub bo: usize,
    /// First byte within the object.
    pub offset: u64,
    /// Bytes; beyond a small object they are those of others behind it in the file.
    pub len: usize,
    /// Which reader or writer, from 0.
    pub worker: usize,
    /// When it began: nanoseconds of CLOCK_MONOTONIC. For a copy, when it was submitted or the one before
    /// it ended, whichever was later.
    pub begin_ns: u64,
    /// When it was known to have ended.
    pub end_ns: u64,
}

/// Now, in nanoseconds of CLOCK_MONOTONIC.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}
