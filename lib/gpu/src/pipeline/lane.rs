//! The copy lane of one GPU: which objects are attached and which copies are under way.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::event::{Event, Stage, now_ns};
use super::plan::{Plan, Unit};
use super::run::{Run, Stopped};
use super::{
    Attached, CopyEngine, CopyError, CopyJob, Direction, PipelineError, Slot, Ticket, Waited,
};

/// How long a wait lasts before the lane looks whether another GPU has failed.
const SLICE: Duration = Duration::from_millis(100);
/// After a failure the copies under way get this long, all together, before they are given up.
const GRACE: Duration = Duration::from_secs(2);

/// A piece of a unit, as large as a slot at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// The unit's number in the plan.
    pub(super) unit: usize,
    /// First byte within the unit.
    pub(super) at: u64,
    pub(super) len: usize,
    /// Is it the unit's last piece?
    pub(super) last: bool,
}

/// All pieces of a plan, or of one unit, in order.
pub(super) fn chunks(index: usize, unit: &Unit, slot_bytes: usize) -> impl Iterator<Item = Chunk> {
    let end = unit.len;
    unit.pieces(slot_bytes).map(move |piece| Chunk {
        unit: index,
        at: piece.start,
        // Not longer than a slot.
        len: usize::try_from(piece.end - piece.start).unwrap_or(slot_bytes),
        last: piece.end == end,
    })
}

/// A copy under way.
#[derive(Debug)]
struct Flight {
    ticket: Ticket,
    chunk: Chunk,
    submitted: Instant,
    submitted_ns: u64,
}

/// A span that the engine knows.
#[derive(Debug, Clone, Copy)]
struct Open {
    bo: Attached,
    /// Bytes of it that are not copied yet.
    left: u64,
}

/// Drives a copy engine. Dropping it waits a moment for what is under way and detaches everything.
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

    /// Starts the copy of a chunk; attaches its object when it is the first of a span.
    pub(super) fn submit(&mut self, chunk: Chunk, slot: Slot) -> Result<(), Stopped> {
        self.run.check()?;
        let unit = self.plan.units[chunk.unit];
        let span = self.plan.spans[unit.span];
        let bo = match self.open.get(&unit.span) {
            Some(open) => open.bo,
            None => {
                let dmabuf = self.job.bos[span.bo].dmabuf;
                let bo = self
                    .engine
                    .attach(dmabuf, span.offset, span.len)
                    .map_err(|source| self.attach_failed(span.bo, source))?;
                self.open.insert(unit.span, Open { bo, left: span.len });
                bo
            }
        };
        let job = CopyJob {
            bo,
            offset: unit.offset - span.offset + chunk.at,
            len: chunk.len,
            direction: self.job.direction,
        };
        let submitted_ns = if self.job.timing { now_ns() } else { 0 };
        let submitted = Instant::now();
        match self.engine.submit(slot, job) {
            Ok(ticket) => {
                self.flights.push_back(Flight {
                    ticket,
                    chunk,
                    submitted,
                    submitted_ns,
                });
                Ok(())
            }
            Err(source) => Err(self.copy_failed(chunk, source)),
        }
    }

    /// Waits for the copy that was started first; `None` when none is under way. Detaches its object when
    /// it was the last of a span.
    pub(super) fn oldest(&mut self) -> Result<Option<(Chunk, Slot)>, Stopped> {
        let Some(Flight {
            mut ticket,
            chunk,
            submitted,
            submitted_ns,
        }) = self.flights.pop_front()
        else {
            return Ok(None);
        };
        // Copies that were queued behind each other each get the whole time.
        let began = Instant::now().max(submitted);
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
                    submitted,
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
        let unit = self.plan.units[chunk.unit];
        self.events.push(Event {
            stage: Stage::Copy,
            gpu: self.job.gpu,
            bo: unit.bo,
            offset: unit.offset + chunk.at,
            len: chunk.len,
            worker: 0,
            begin_ns: submitted_ns.max(self.last_end_ns),
            end_ns,
        });
        self.last_end_ns = end_ns;
    }

    fn close_if_done(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        let span = self.plan.units[chunk.unit].span;
        let Some(open) = self.open.get_mut(&span) else {
            return Ok(());
        };
        open.left = open.left.saturating_sub(chunk.len as u64);
        if open.left > 0 {
            return Ok(());
        }
        let bo = open.bo;
        self.open.remove(&span);
        self.engine
            .detach(bo)
            .map_err(|source| self.attach_failed(self.plan.spans[span].bo, source))
    }

    fn attach_failed(&self, bo: usize, source: CopyError) -> Stopped {
        self.run.fail(PipelineError::Attach {
            gpu: self.job.gpu,
            bo,
            source,
        })
    }

    fn copy_failed(&self, chunk: Chunk, source: CopyError) -> Stopped {
        let unit = self.plan.units[chunk.unit];
        self.run.fail(PipelineError::Copy {
            direction: self.job.direction,
            gpu: self.job.gpu,
            bo: unit.bo,
            offset: unit.offset + chunk.at,
            source,
        })
    }

    fn timed_out(&self, chunk: Chunk) -> Stopped {
        let unit = self.plan.units[chunk.unit];
        self.run.fail(PipelineError::TimedOut {
            direction: self.job.direction,
            gpu: self.job.gpu,
            bo: unit.bo,
            offset: unit.offset + chunk.at,
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
        // Errors here come after the first one, which is recorded.
        while let Some(flight) = self.flights.pop_front() {
            let left = GRACE.min(self.job.timeout).saturating_sub(began.elapsed());
            let _ = self.engine.wait(flight.ticket, left);
        }
        for (_, open) in self.open.drain() {
            let _ = self.engine.detach(open.bo);
        }
    }
}
