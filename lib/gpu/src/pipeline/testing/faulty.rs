//! Stages that fail at a chosen moment.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use crate::pipeline::{
    Attached, CopyEngine, CopyError, CopyJob, FileEngine, FileError, Order, RingLayout, Slot,
    Ticket, Waited,
};

/// How a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// With an errno.
    Errno(Errno),
    /// A read or write that moves too few bytes.
    Short,
    /// A copy that never ends. Other steps fail with EIO.
    Hang,
    /// The step panics.
    Panic,
}

/// Which step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// [`CopyEngine::stage`]
    Stage,
    /// [`CopyEngine::attach`]
    Attach,
    /// [`CopyEngine::submit`]
    Submit,
    /// [`CopyEngine::wait`]
    Wait,
    /// [`CopyEngine::detach`]
    Detach,
    /// [`FileEngine::read_at`]
    Read,
    /// [`FileEngine::write_at`]
    Write,
    /// [`FileEngine::set_len`]
    SetLen,
}

/// Counts the calls of one step and fails one of them.
#[derive(Debug)]
struct Trigger {
    step: Step,
    fault: Fault,
    /// Calls of the step that still succeed.
    left: AtomicUsize,
}

impl Trigger {
    /// Is this the call that fails? Later calls of the step succeed again.
    fn fires(&self, step: Step) -> Option<Fault> {
        if step != self.step {
            return None;
        }
        let before = self.left.fetch_sub(1, Ordering::Relaxed);
        if before != 0 {
            return None;
        }
        assert!(self.fault != Fault::Panic, "injected panic");
        Some(self.fault)
    }
}

/// Wraps a file and fails one call of it.
pub struct FaultyFile<F> {
    inner: F,
    trigger: Trigger,
}

impl<F> FaultyFile<F> {
    /// After `after` good calls of `step` the next one fails with `fault`.
    pub fn new(inner: F, step: Step, after: usize, fault: Fault) -> Self {
        let left = AtomicUsize::new(after);
        Self {
            inner,
            trigger: Trigger { step, fault, left },
        }
    }

    fn check(&self, step: Step, offset: u64, missing: usize) -> Result<(), FileError> {
        let file = || "faulty".to_owned();
        Err(match self.trigger.fires(step) {
            None => return Ok(()),
            Some(Fault::Short) if step == Step::Read => FileError::ShortRead {
                file: file(),
                offset,
                missing,
            },
            Some(Fault::Short) => FileError::ShortWrite {
                file: file(),
                offset,
                missing,
            },
            Some(fault) => FileError::Io {
                op: "Injected fault",
                file: file(),
                offset,
                errno: errno(fault),
            },
        })
    }
}

fn errno(fault: Fault) -> Errno {
    match fault {
        Fault::Errno(errno) => errno,
        _ => Errno::IO,
    }
}

impl<F> fmt::Debug for FaultyFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyFile")
            .field("trigger", &self.trigger)
            .finish_non_exhaustive()
    }
}

impl<F: FileEngine> FileEngine for FaultyFile<F> {
    fn order(&self) -> Order {
        self.inner.order()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError> {
        self.check(Step::Read, offset, buf.len())?;
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), FileError> {
        self.check(Step::Write, offset, buf.len())?;
        self.inner.write_at(buf, offset)
    }

    fn holes_from(&self) -> Result<Option<u64>, FileError> {
        self.inner.holes_from()
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        self.check(Step::SetLen, len, 0)?;
        self.inner.set_len(len)
    }
}

/// Wraps a copy engine and fails one call of it.
pub struct FaultyCopy<C> {
    inner: C,
    trigger: Trigger,
    /// The copy that never ends.
    hangs: Option<u64>,
}

impl<C> FaultyCopy<C> {
    /// After `after` good calls of `step` the next one fails with `fault`.
    pub fn new(inner: C, step: Step, after: usize, fault: Fault) -> Self {
        let left = AtomicUsize::new(after);
        Self {
            inner,
            trigger: Trigger { step, fault, left },
            hangs: None,
        }
    }

    /// The engine inside.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    fn check(&self, step: Step) -> Result<(), CopyError> {
        match self.trigger.fires(step) {
            None => Ok(()),
            Some(fault) => Err(CopyError::Io {
                op: "Injected fault",
                errno: errno(fault),
            }),
        }
    }
}

impl<C> fmt::Debug for FaultyCopy<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyCopy")
            .field("trigger", &self.trigger)
            .finish_non_exhaustive()
    }
}

impl<C: CopyEngine> CopyEngine for FaultyCopy<C> {
    fn stage(&mut self, layout: RingLayout) -> Result<Vec<Slot>, CopyError> {
        self.check(Step::Stage)?;
        self.inner.stage(layout)
    }

    fn attach(
        &mut self,
        dmabuf: BorrowedFd<'_>,
        offset: u64,
        len: u64,
    ) -> Result<Attached, CopyError> {
        self.check(Step::Attach)?;
        self.inner.attach(dmabuf, offset, len)
    }

    fn submit(&mut self, slot: Slot, job: CopyJob<'_>) -> Result<Ticket, CopyError> {
        self.check(Step::Submit)?;
        self.inner.submit(slot, job)
    }

    fn wait(&mut self, ticket: Ticket, limit: Duration) -> Result<Waited, CopyError> {
        if self.hangs.is_none() {
            match self.trigger.fires(Step::Wait) {
                None => {}
                Some(Fault::Hang) => self.hangs = Some(ticket.job),
                Some(fault) => {
                    // To the engine inside the copy is over.
                    self.inner.wait(ticket, limit)?;
                    return Err(CopyError::Io {
                        op: "Injected fault",
                        errno: errno(fault),
                    });
                }
            }
        }
        if self.hangs == Some(ticket.job) {
            std::thread::sleep(limit);
            return Ok(Waited::Busy(ticket));
        }
        self.inner.wait(ticket, limit)
    }

    fn detach(&mut self, bo: Attached) -> Result<(), CopyError> {
        self.check(Step::Detach)?;
        self.inner.detach(bo)
    }
}
