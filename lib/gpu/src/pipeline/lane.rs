//! The copy lane of one GPU: which objects are attached and which copies are under way.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::event::{Event, Stage, now_ns};
use super::plan::{Chunk, Plan, Span};
use super::run::{Run, Stopped};
use super::{
    Attached, CopyEngine, CopyError, CopyJob, CopyPart, Direction, PipelineError, Slot, Ticket,
    Waited,
};

/// How long a wait lasts before the lane looks whether another GPU has failed.
const SLICE: Duration = Duration::from_millis(100);
/// After a failure the copies under way get this long, all together, before they are given up.
const GRACE: Duration = Duration::from_secs(2);

/// A copy under way.
#[derive(Debug)]
struct Flight {
    ticket: Ticket,
    chunk: Chunk,
    submitted_ns: u64,
}

/// A span that the engine knows.
#[derive(Debug, Clone, Copy)]
struct Open {
    bo: Attached,
    /// Bytes of it that are not copied yet.
    left: u64,
}

/// Drives a copy engine. Dropping it waits a moment for what is under way and detaches everything; while a copy
/// goes on after that moment its objects stay attached, until the engine itself is dropped.
pub(super) struct Lane<'a> {
    engine: &'a mut dyn CopyEngine,
    plan: &'a Plan,
    run: &'a Run,
    job: LaneJob<'a>,
    open: HashMap<usize, Open>,
    flights: VecDeque<Flight>,
    last_end_ns: u64,
    pub(super) bytes: u64,
    pub(super) copies: u64,
    pub(super) events: Vec<Event>,
}

/// What does not change during a transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneJob<'a> {
    pub(super) gpu: rocferry_topology::UserGpuId,
    pub(super) bos: &'a [super::BoSpec<'a>],
    pub(super) direction: Direction,
    pub(super) timeout: Duration,
    pub(super) timing: bool,
}

impl<'a> Lane<'a> {
    pub(super) fn new(
        engine: &'a mut dyn CopyEngine,
        plan: &'a Plan,
        run: &'a Run,
        job: LaneJob<'a>,
    ) -> Self {
        Self {
            engine,
            plan,
            run,
            job,
            open: HashMap::new(),
            flights: VecDeque::new(),
            last_end_ns: 0,
            bytes: 0,
            copies: 0,
            events: Vec::new(),
        }
    }

    /// How many copies are under way.
    pub(super) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Starts the copy of a chunk; attaches its objects where it is the first of a span.
    pub(super) fn submit(&mut self, chunk: Chunk, slot: Slot) -> Result<(), Stopped> {
        self.run.check()?;
        let plan = self.plan;
        let mut parts = Vec::new();
        for part in plan.parts(chunk) {
            let piece = plan.pieces[part.piece];
            parts.push(CopyPart {
                bo: self.attached(piece.span)?,
                offset: piece.offset - plan.spans[piece.span].offset + part.at,
                slot_offset: part.slot_at,
                len: part.len,
            });
        }
        let job = CopyJob {
            parts: &parts,
            direction: self.job.direction,
        };
        let submitted_ns = if self.job.timing { now_ns() } else { 0 };
        match self.engine.submit(slot, job) {
            Ok(ticket) => {
                self.flights.push_back(Flight {
                    ticket,
                    chunk,
                    submitted_ns,
                });
                Ok(())
            }
            Err(source) => Err(self.copy_failed(chunk, source)),
        }
    }

    /// The engine's number of a span.
    fn attached(&mut self, span: usize) -> Result<Attached, Stopped> {
        if let Some(open) = self.open.get(&span) {
            return Ok(open.bo);
        }
        let Span { bo, offset, len } = self.plan.spans[span];
        let attached = self
            .engine
            .attach(self.job.bos[bo].dmabuf, offset, len)
            .map_err(|source| self.attach_failed(bo, source))?;
        self.open.insert(
            span,
            Open {
                bo: attached,
                left: len,
            },
        );
        Ok(attached)
    }

    /// Waits for the copy that was started first; `None` when none is under way. Detaches its object when
    /// it was the last of a span.
    pub(super) fn oldest(&mut self) -> Result<Option<(Chunk, Slot)>, Stopped> {
        let Some(Flight {
            mut ticket,
            chunk,
            submitted_ns,
        }) = self.flights.pop_front()
        else {
            return Ok(None);
        };
        // Copies that were queued behind each other each get the whole time.
        let began = Instant::now();
        let slot = loop {
            let left = self.job.timeout.saturating_sub(began.elapsed());
            match self.engine.wait(ticket, left.min(SLICE)) {
                Ok(Waited::Done(slot)) => break slot,
                Ok(Waited::Busy(back)) => ticket = back,
                Err(source) => return Err(self.copy_failed(chunk, source)),
            }
            let stop = if left.is_zero() {
                Err(self.timed_out(chunk))
            } else {
                self.run.check()
            };
            if let Err(stopped) = stop {
                // Still under way: the end of the lane has to deal with it.
                self.flights.push_front(Flight {
                    ticket,
                    chunk,
                    submitted_ns,
                });
                return Err(stopped);
            }
        };
        if self.job.timing {
            self.record(chunk, submitted_ns);
        }
        self.bytes += chunk.len as u64;
        self.copies += 1;
        self.close_if_done(chunk)?;
        Ok(Some((chunk, slot)))
    }

    fn record(&mut self, chunk: Chunk, submitted_ns: u64) {
        let end_ns = now_ns();
        let (bo, offset) = self.plan.object_at(chunk, self.plan.file_offset(chunk));
        self.events.push(Event {
            stage: Stage::Copy,
            gpu: self.job.gpu,
            bo,
            offset,
            len: chunk.len,
            worker: 0,
            begin_ns: submitted_ns.max(self.last_end_ns),
            end_ns,
        });
        self.last_end_ns = end_ns;
    }

    /// Detaches those objects of a copied chunk of which nothing is left to copy.
    fn close_if_done(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        let plan = self.plan;
        for part in plan.parts(chunk) {
            let span = plan.pieces[part.piece].span;
            let Some(open) = self.open.get_mut(&span) else {
                continue;
            };
            open.left = open.left.saturating_sub(part.len as u64);
            if open.left == 0 {
                let bo = open.bo;
                self.open.remove(&span);
                self.engine
                    .detach(bo)
                    .map_err(|source| self.attach_failed(plan.spans[span].bo, source))?;
            }
        }
        Ok(())
    }

    fn attach_failed(&self, bo: usize, source: CopyError) -> Stopped {
        self.run.fail(PipelineError::Attach {
            gpu: self.job.gpu,
            bo,
            source,
        })
    }

    fn copy_failed(&self, chunk: Chunk, source: CopyError) -> Stopped {
        let (bo, offset) = self.plan.object_at(chunk, self.plan.file_offset(chunk));
        self.run.fail(PipelineError::Copy {
            direction: self.job.direction,
            gpu: self.job.gpu,
            bo,
            others: self.plan.units[chunk.unit].pieces.len() - 1,
            offset,
            source,
        })
    }

    fn timed_out(&self, chunk: Chunk) -> Stopped {
        let (bo, offset) = self.plan.object_at(chunk, self.plan.file_offset(chunk));
        self.run.fail(PipelineError::TimedOut {
            direction: self.job.direction,
            gpu: self.job.gpu,
            bo,
            others: self.plan.units[chunk.unit].pieces.len() - 1,
            offset,
            limit: self.job.timeout,
        })
    }

    /// Everything asked for must have been copied.
    pub(super) fn check_complete(&self) -> Result<(), Stopped> {
        self.run.check()?;
        if self.bytes == self.plan.bytes {
            return Ok(());
        }
        Err(self.run.fail(PipelineError::Incomplete {
            gpu: self.job.gpu,
            done: self.bytes,
            wanted: self.plan.bytes,
        }))
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The engine may be what panicked.
            return;
        }
        let began = Instant::now();
        let mut busy = false;
        // Errors here come after the first one, which is recorded.
        while let Some(flight) = self.flights.pop_front() {
            let left = GRACE.min(self.job.timeout).saturating_sub(began.elapsed());
            busy |= matches!(self.engine.wait(flight.ticket, left), Ok(Waited::Busy(_)));
        }
        if busy {
            // The kernel would wait for the copy before it takes an object away from it: without a limit,
            // and with the copy's own time-out passed already.
            return;
        }
        for (_, open) in self.open.drain() {
            let _ = self.engine.detach(open.bo);
        }
    }
}
