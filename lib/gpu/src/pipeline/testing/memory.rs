//! A copy engine without a GPU.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rocferry_kfd::Mapping;
use rustix::io::Errno;

use crate::pipeline::{
    Attached, CopyEngine, CopyError, CopyJob, CopyPart, Direction, FdFile, FileEngine, FileError,
    MAX_PARTS, RingLayout, Slot, Staging, Ticket, Waited,
};

/// Copies between slots and files in memory (memfd) that stand for buffer objects. As on a GPU, a copy is
/// made some time between its submission and the end of waiting for it: here at the latest moment.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    bos: HashMap<u64, Bo>,
    jobs: VecDeque<Job>,
    next: u64,
    /// How often a ring was registered.
    pub rings: usize,
    /// How many ranges were attached.
    pub attachments: usize,
    /// The most that were attached at the same time.
    pub most_attached: usize,
}

#[derive(Debug)]
struct Job {
    number: u64,
    parts: Vec<CopyPart>,
    direction: Direction,
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

    fn submit(&mut self, slot: Slot, job: CopyJob<'_>) -> Result<Ticket, CopyError> {
        let fits = |part: &CopyPart| {
            part.slot_offset + part.len <= slot.len()
                && (self.bos.get(&part.bo.0))
                    .is_some_and(|bo| part.offset + part.len as u64 <= bo.len)
        };
        if job.parts.is_empty() || job.parts.len() > MAX_PARTS || !job.parts.iter().all(fits) {
            return Err(CopyError::BadJob {
                what: "outside of slot or object",
            });
        }
        let number = self.number();
        self.jobs.push_back(Job {
            number,
            parts: job.parts.to_vec(),
            direction: job.direction,
        });
        Ok(Ticket { slot, job: number })
    }

    fn wait(&mut self, mut ticket: Ticket, _: Duration) -> Result<Waited, CopyError> {
        let Some(job) = self.jobs.pop_front().filter(|job| job.number == ticket.job) else {
            return Err(CopyError::BadJob {
                what: "waits out of order",
            });
        };
        for part in &job.parts {
            let Some(bo) = self.bos.get(&part.bo.0) else {
                return Err(CopyError::BadJob {
                    what: "the object was detached too early",
                });
            };
            let at = bo.offset + part.offset;
            let bytes = &mut ticket.slot.bytes_mut()[part.slot_offset..][..part.len];
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
        }
        Ok(Waited::Done(ticket.slot))
    }

    fn detach(&mut self, bo: Attached) -> Result<(), CopyError> {
        let busy = |job: &Job| job.parts.iter().any(|part| part.bo == bo);
        if self.jobs.iter().any(busy) || self.bos.remove(&bo.0).is_none() {
            return Err(CopyError::BadJob {
                what: "detaches what is busy or not attached",
            });
        }
        Ok(())
    }
}
