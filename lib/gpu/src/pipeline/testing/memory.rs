//! A copy engine without a GPU.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rocferry_kfd::Mapping;
use rustix::io::Errno;

use crate::pipeline::{
    Attached, CopyEngine, CopyError, CopyJob, Direction, FdFile, FileEngine, FileError, RingLayout,
    Slot, Staging, Ticket, Waited,
};

/// Copies between slots and files in memory (memfd) that stand for buffer objects. As on a GPU, a copy is
/// made some time between its submission and the end of waiting for it: here at the latest moment.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    bos: HashMap<u64, Bo>,
    jobs: VecDeque<(u64, CopyJob)>,
    next: u64,
    /// How often a ring was registered.
    pub rings: usize,
    /// How many ranges were attached.
    pub attachments: usize,
    /// The most that were attached at the same time.
    pub most_attached: usize,
}

#[derive(Debug)]
struct Bo {
    file: FdFile<OwnedFd>,
    offset: u64,
    len: u64,
}

impl MemoryEngine {
    /// An engine with nothing attached.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many ranges are attached now.
    #[must_use]
    pub fn attached(&self) -> usize {
        self.bos.len()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl CopyEngine for MemoryEngine {
    fn stage(&mut self, layout: RingLayout) -> Result<Vec<Slot>, CopyError> {
        self.rings += 1;
        Ok(Staging::new(Mapping::anonymous(layout.bytes())?, layout)?.into_slots())
    }

    fn attach(
        &mut self,
        dmabuf: BorrowedFd<'_>,
        offset: u64,
        len: u64,
    ) -> Result<Attached, CopyError> {
        let copy = rustix::io::fcntl_dupfd_cloexec(dmabuf, 0)
            .map_err(|errno| CopyError::Io { op: "dup", errno })?;
        let id = self.number();
        let file = FdFile::new(copy, "buffer object");
        self.bos.insert(id, Bo { file, offset, len });
        self.attachments += 1;
        self.most_attached = self.most_attached.max(self.bos.len());
        Ok(Attached(id))
    }

    fn submit(&mut self, slot: Slot, job: CopyJob) -> Result<Ticket, CopyError> {
        let fits = |bo: &Bo| job.offset + job.len as u64 <= bo.len;
        if job.len > slot.len() || !self.bos.get(&job.bo.0).is_some_and(fits) {
            return Err(CopyError::BadJob {
                what: "outside of slot or object",
            });
        }
        let number = self.number();
        self.jobs.push_back((number, job));
        Ok(Ticket { slot, job: number })
    }

    fn wait(&mut self, mut ticket: Ticket, _: Duration) -> Result<Waited, CopyError> {
        let bad = CopyError::BadJob {
            what: "waits out of order",
        };
        let Some((number, job)) = self.jobs.pop_front() else {
            return Err(bad);
        };
        let Some(bo) = self.bos.get(&job.bo.0).filter(|_| number == ticket.job) else {
            return Err(bad);
        };
        let at = bo.offset + job.offset;
        let bytes = &mut ticket.slot.bytes_mut()[..job.len];
        match job.direction {
            Direction::ToGpu => bo.file.write_at(bytes, at),
            Direction::FromGpu => bo.file.read_at(bytes, at),
        }
        .map_err(|error| CopyError::Io {
            op: "Copy",
            errno: match error {
                FileError::Io { errno, .. } => errno,
                _ => Errno::FAULT,
            },
        })?;
        Ok(Waited::Done(ticket.slot))
    }

    fn detach(&mut self, bo: Attached) -> Result<(), CopyError> {
        let busy = self.jobs.iter().any(|(_, job)| job.bo == bo);
        if busy || self.bos.remove(&bo.0).is_none() {
            return Err(CopyError::BadJob {
                what: "detaches what is busy or not attached",
            });
        }
        Ok(())
    }
}
