//! Stages that take their time.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::pipeline::{
    Attached, CopyEngine, CopyError, CopyJob, FileEngine, FileError, Order, RingLayout, Slot,
    Ticket, Waited,
};

/// A file whose every read and write takes a while longer. Several at once do not disturb each other.
pub struct DelayedFile<F> {
    inner: F,
    delay: Duration,
}

impl<F> DelayedFile<F> {
    /// Delays `inner`.
    pub fn new(inner: F, delay: Duration) -> Self {
        Self { inner, delay }
    }
}

impl<F> fmt::Debug for DelayedFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedFile")
            .field("delay", &self.delay)
            .finish_non_exhaustive()
    }
}

impl<F: FileEngine> FileEngine for DelayedFile<F> {
    fn order(&self) -> Order {
        self.inner.order()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError> {
        std::thread::sleep(self.delay);
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), FileError> {
        std::thread::sleep(self.delay);
        self.inner.write_at(buf, offset)
    }

    fn holes_from(&self) -> Result<Option<u64>, FileError> {
        self.inner.holes_from()
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        self.inner.set_len(len)
    }
}

/// An engine on whose single lane every copy takes a while longer, one after the other.
pub struct DelayedCopy<C> {
    inner: C,
    delay: Duration,
    lane_free: Instant,
    due: HashMap<u64, Instant>,
}

impl<C> DelayedCopy<C> {
    /// Delays `inner`.
    pub fn new(inner: C, delay: Duration) -> Self {
        Self {
            inner,
            delay,
            lane_free: Instant::now(),
            due: HashMap::new(),
        }
    }
}

impl<C> fmt::Debug for DelayedCopy<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedCopy")
            .field("delay", &self.delay)
            .finish_non_exhaustive()
    }
}

impl<C: CopyEngine> CopyEngine for DelayedCopy<C> {
    fn stage(&mut self, layout: RingLayout) -> Result<Vec<Slot>, CopyError> {
        self.inner.stage(layout)
    }

    fn attach(
        &mut self,
        dmabuf: BorrowedFd<'_>,
        offset: u64,
        len: u64,
    ) -> Result<Attached, CopyError> {
        self.inner.attach(dmabuf, offset, len)
    }

    fn submit(&mut self, slot: Slot, job: CopyJob<'_>) -> Result<Ticket, CopyError> {
        let ticket = self.inner.submit(slot, job)?;
        self.lane_free = self.lane_free.max(Instant::now()) + self.delay;
        self.due.insert(ticket.job, self.lane_free);
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket, limit: Duration) -> Result<Waited, CopyError> {
        if let Some(due) = self.due.get(&ticket.job) {
            let left = due.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(limit));
            if left > limit {
                return Ok(Waited::Busy(ticket));
            }
            self.due.remove(&ticket.job);
        }
        self.inner.wait(ticket, limit)
    }

    fn detach(&mut self, bo: Attached) -> Result<(), CopyError> {
        self.inner.detach(bo)
    }
}
