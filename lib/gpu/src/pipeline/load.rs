//! From the file into the GPU.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use super::digest::{BlockHasher, is_zero};
use super::event::{Event, Stage, now_ns};
use super::flow::workers;
use super::lane::{Lane, LaneJob};
use super::plan::{Chunk, Plan};
use super::run::{Run, Stopped, all_gpus, spawn};
use super::{
    BlockIndex, Direction, FileEngine, GpuTransfer, Options, PipelineError, Report, RingLayout,
    Slot,
};

/// Fills the buffer objects of each GPU from its file. Blocks are checked against the index where there is
/// one. Returns the reports in the order of the jobs, once every thread has ended.
///
/// # Errors
/// The first [`PipelineError`]. The objects then hold anything.
pub fn load(jobs: Vec<GpuTransfer<'_>>, options: &Options) -> Result<Vec<Report>, PipelineError> {
    all_gpus(jobs, options, |transfer, run, ring_bytes| {
        load_one(transfer, run, ring_bytes, options)
    })
}

fn load_one(
    transfer: &mut GpuTransfer<'_>,
    run: &Run,
    ring_bytes: u64,
    options: &Options,
) -> Result<Report, Stopped> {
    run.check()?;
    let plan = Plan::new(transfer, ring_bytes).map_err(|error| run.fail(error))?;
    if plan.units.is_empty() {
        return Ok(Report::default());
    }
    let layout = plan.layout;
    let gpu = transfer.gpu;
    let slots = transfer
        .engine
        .stage(layout)
        .map_err(|source| run.fail(PipelineError::Staging { gpu, source }))?;
    let job = LaneJob {
        gpu,
        bos: &transfer.bos,
        direction: Direction::ToGpu,
        timeout: options.copy_timeout,
        timing: options.timing,
    };
    let reading = Reading {
        job,
        plan: &plan,
        run,
        file: transfer.file,
        index: transfer.index,
        layout,
        next: AtomicUsize::new(0),
    };
    let lane = Lane::new(&mut *transfer.engine, &plan, run, job);
    let readers = workers(transfer.file, options, layout, plan.units.len());
    if readers == 0 {
        reading.alone(lane, slots)
    } else {
        reading.threaded(lane, slots, readers)
    }
}

/// A slot that has been filled.
type Filled = (Chunk, Slot);

/// Where a reader gets its slots and leaves them when they are filled.
trait Flow {
    fn slot(&mut self) -> Result<Slot, Stopped>;
    fn filled(&mut self, filled: Filled) -> Result<(), Stopped>;
}

/// What all readers of one GPU share.
struct Reading<'a> {
    job: LaneJob<'a>,
    plan: &'a Plan,
    run: &'a Run,
    file: &'a dyn FileEngine,
    index: Option<&'a BlockIndex>,
    layout: RingLayout,
    /// The first unit that nobody reads yet.
    next: AtomicUsize,
}

impl Reading<'_> {
    /// Everything in this thread: one slot is read while others are copied.
    fn alone(&self, lane: Lane<'_>, slots: Vec<Slot>) -> Result<Report, Stopped> {
        let mut flow = DirectFlow {
            lane,
            free: slots,
            depth: self.layout.depth(),
        };
        let mut events = self.read_all(0, &mut flow)?;
        let mut lane = flow.lane;
        while lane.oldest()?.is_some() {}
        lane.check_complete()?;
        events.append(&mut lane.events);
        Ok(report(&lane, events))
    }

    /// Readers in threads, the lane in this one.
    fn threaded(
        &self,
        lane: Lane<'_>,
        slots: Vec<Slot>,
        readers: usize,
    ) -> Result<Report, Stopped> {
        std::thread::scope(|scope| {
            let (filled_in, filled_out) = bounded(slots.len());
            let (free_in, free_out) = bounded(slots.len());
            let mut started: Vec<ScopedJoinHandle<'_, Result<Vec<Event>, Stopped>>> = Vec::new();
            for reader in 0..readers {
                let mut flow = ChannelFlow {
                    free: free_out.clone(),
                    filled: filled_in.clone(),
                };
                started.extend(spawn(scope, format!("rf-read-{reader}"), move || {
                    self.run
                        .guard(self.job.gpu, || self.read_all(reader, &mut flow))
                }));
            }
            drop(free_out);
            drop(filled_in);
            if started.is_empty() {
                return self.alone(lane, slots);
            }
            for slot in slots {
                // It has room for all of them.
                let _ = free_in.send(slot);
            }
            // A panic of the lane must not leave the readers waiting: its ends of the channels go with it.
            let copied = self
                .run
                .guard(self.job.gpu, || self.copy_all(lane, &filled_out, free_in));
            drop(filled_out);
            let mut events = Vec::new();
            for handle in started {
                // The guard has caught every panic, and recorded whatever failed.
                events.extend(handle.join().ok().and_then(Result::ok).unwrap_or_default());
            }
            let mut lane = copied?;
            lane.check_complete()?;
            events.append(&mut lane.events);
            Ok(report(&lane, events))
        })
    }

    /// The lane's part: copies what is filled until no reader is left. Dropping `free` ends the readers.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "its end must go when the lane stops"
    )]
    fn copy_all<'a>(
        &self,
        mut lane: Lane<'a>,
        filled: &Receiver<Filled>,
        free: Sender<Slot>,
    ) -> Result<Lane<'a>, Stopped> {
        let depth = self.layout.depth();
        loop {
            while lane.in_flight() < depth {
                let next = if lane.in_flight() == 0 {
                    filled.recv().map_err(|_| TryRecvError::Disconnected)
                } else {
                    filled.try_recv()
                };
                match next {
                    Ok((chunk, slot)) => lane.submit(chunk, slot)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) if lane.in_flight() == 0 => return Ok(lane),
                    Err(TryRecvError::Disconnected) => break,
                }
            }
            if let Some((_, slot)) = lane.oldest()? {
                // When no reader is left to take it, it goes.
                let _ = free.send(slot);
            }
        }
    }

    /// A reader's part: takes units until none is left.
    fn read_all(&self, reader: usize, flow: &mut dyn Flow) -> Result<Vec<Event>, Stopped> {
        let mut events = Vec::new();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.plan.units.len() {
                return Ok(events);
            }
            self.read_unit(index, reader, flow, &mut events)?;
        }
    }

    fn read_unit(
        &self,
        index: usize,
        reader: usize,
        flow: &mut dyn Flow,
        events: &mut Vec<Event>,
    ) -> Result<(), Stopped> {
        let plan = self.plan;
        let gpu = self.job.gpu;
        let mut hasher = BlockHasher::default();
        for chunk in plan.chunks(index) {
            let mut slot = flow.slot()?;
            self.run.check()?;
            let begin_ns = if self.job.timing { now_ns() } else { 0 };
            let bytes = &mut slot.bytes_mut()[..chunk.len];
            let place = plan.file_offset(chunk);
            self.file.read_at(bytes, place).map_err(|source| {
                let (bo, offset) = plan.object_at(chunk, source.offset());
                self.run.fail(PipelineError::Read {
                    gpu,
                    bo,
                    offset,
                    source,
                })
            })?;
            if self.job.timing {
                let (bo, offset) = plan.object_at(chunk, place);
                events.push(Event {
                    stage: Stage::Read,
                    gpu,
                    bo,
                    offset,
                    len: chunk.len,
                    worker: reader,
                    begin_ns,
                    end_ns: now_ns(),
                });
            }
            if let Some(index) = self.index {
                self.verify(index, chunk, bytes, &mut hasher)?;
            }
            flow.filled((chunk, slot))?;
        }
        Ok(())
    }

    /// Adds what was read to the digest of its block, and compares the digests of blocks that end here.
    fn verify(
        &self,
        index: &BlockIndex,
        chunk: Chunk,
        bytes: &[u8],
        hasher: &mut BlockHasher,
    ) -> Result<(), Stopped> {
        for part in self.plan.parts(chunk) {
            let bytes = &bytes[part.range()];
            hasher.update(bytes, is_zero(bytes));
            if !part.last {
                continue;
            }
            let piece = &self.plan.pieces[part.piece];
            let (bo, block) = (piece.bo, piece.block());
            let wanted = usize::try_from(block)
                .ok()
                .and_then(|block| index.bos[bo].get(block));
            if wanted != Some(&std::mem::take(hasher).finish()) {
                return Err(self.run.fail(PipelineError::Mismatch {
                    gpu: self.job.gpu,
                    bo,
                    block,
                }));
            }
        }
        Ok(())
    }
}

fn report(lane: &Lane<'_>, events: Vec<Event>) -> Report {
    Report {
        bytes: lane.bytes,
        copies: lane.copies,
        events,
        ..Report::default()
    }
}

/// Between threads. A closed channel means that the other side has stopped.
struct ChannelFlow {
    free: Receiver<Slot>,
    filled: Sender<Filled>,
}

impl Flow for ChannelFlow {
    fn slot(&mut self) -> Result<Slot, Stopped> {
        self.free.recv().map_err(|_| Stopped)
    }

    fn filled(&mut self, filled: Filled) -> Result<(), Stopped> {
        self.filled.send(filled).map_err(|_| Stopped)
    }
}

/// Within one thread: the lane is driven between two reads.
struct DirectFlow<'a> {
    lane: Lane<'a>,
    free: Vec<Slot>,
    depth: usize,
}

impl DirectFlow<'_> {
    fn reclaim(&mut self) -> Result<(), Stopped> {
        if let Some((_, slot)) = self.lane.oldest()? {
            self.free.push(slot);
        }
        Ok(())
    }
}

impl Flow for DirectFlow<'_> {
    fn slot(&mut self) -> Result<Slot, Stopped> {
        loop {
            if let Some(slot) = self.free.pop() {
                return Ok(slot);
            }
            if self.lane.in_flight() == 0 {
                // No slot is anywhere: the engine has lost one, which it reported.
                return Err(Stopped);
            }
            self.reclaim()?;
        }
    }

    fn filled(&mut self, (chunk, slot): Filled) -> Result<(), Stopped> {
        while self.lane.in_flight() >= self.depth {
            self.reclaim()?;
        }
        self.lane.submit(chunk, slot)
    }
}
