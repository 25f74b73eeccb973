//! From the GPU into the file.

use std::ops::Range;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::digest::{BlockDigest, BlockHasher, is_zero};
use super::event::{Event, Stage, now_ns};
use super::flow::workers;
use super::lane::{Lane, LaneJob};
use super::plan::{Chunk, Plan};
use super::run::{Run, Stopped, all_gpus, spawn};
use super::{
    BlockIndex, Direction, FileEngine, GpuTransfer, Options, PipelineError, Report, RingLayout,
    Slot,
};

/// How long the lane waits for a free slot before it looks whether somebody has failed.
const SLICE: Duration = Duration::from_millis(100);

/// Writes the contents of each GPU's buffer objects into its file and digests them. Zeros leave holes where
/// the file allows it, and the file ends with its last object. Returns the reports in the order of the jobs,
/// once every thread has ended. Does not sync the file.
///
/// # Errors
/// The first [`PipelineError`]. The files then hold anything.
pub fn save(jobs: Vec<GpuTransfer<'_>>, options: &Options) -> Result<Vec<Report>, PipelineError> {
    all_gpus(jobs, options, |transfer, run, ring_bytes| {
        save_one(transfer, run, ring_bytes, options)
    })
}

fn save_one(
    transfer: &mut GpuTransfer<'_>,
    run: &Run,
    ring_bytes: u64,
    options: &Options,
) -> Result<Report, Stopped> {
    run.check()?;
    transfer.index = None;
    let plan = Plan::new(transfer, ring_bytes).map_err(|error| run.fail(error))?;
    let gpu = transfer.gpu;
    let file = transfer.file;
    let mut report = Report::default();
    if !plan.units.is_empty() {
        let length_failed = |source| run.fail(PipelineError::Length { gpu, source });
        let holes_from = file.holes_from().map_err(length_failed)?;
        let layout = plan.layout;
        let slots = transfer
            .engine
            .stage(layout)
            .map_err(|source| run.fail(PipelineError::Staging { gpu, source }))?;
        let job = LaneJob {
            gpu,
            bos: &transfer.bos,
            direction: Direction::FromGpu,
            timeout: options.copy_timeout,
            timing: options.timing,
        };
        let writing = Writing {
            job,
            plan: &plan,
            run,
            file,
            holes_from,
            layout,
        };
        let lane = Lane::new(&mut *transfer.engine, &plan, run, job);
        let writers = workers(file, options, layout, plan.units.len());
        report = if writers == 0 {
            writing.alone(lane, slots)?
        } else {
            writing.threaded(lane, slots, writers)?
        };
        if holes_from.is_some() {
            file.set_len(plan.file_end).map_err(length_failed)?;
        }
    }
    // Objects without bytes have an entry as well.
    report.index.bos.resize_with(transfer.bos.len(), Vec::new);
    Ok(report)
}

/// A slot that the GPU has filled.
type Filled = (Chunk, Slot);

/// What all writers of one GPU share.
struct Writing<'a> {
    job: LaneJob<'a>,
    plan: &'a Plan,
    run: &'a Run,
    file: &'a dyn FileEngine,
    holes_from: Option<u64>,
    layout: RingLayout,
}

/// What one writer has done.
#[derive(Default)]
struct Written {
    hasher: BlockHasher,
    /// Piece and digest.
    blocks: Vec<(usize, BlockDigest)>,
    holes: u64,
    events: Vec<Event>,
}

impl Writing<'_> {
    /// Everything in this thread: one slot is written while others are copied.
    fn alone(&self, mut lane: Lane<'_>, slots: Vec<Slot>) -> Result<Report, Stopped> {
        let depth = self.layout.depth();
        let mut free = slots;
        let mut written = Written::default();
        for chunk in self.plan.all_chunks() {
            while lane.in_flight() > depth || free.is_empty() {
                // With no copy under way and no slot, the engine has lost one, which it reported.
                let (done, slot) = lane.oldest()?.ok_or(Stopped)?;
                self.write(0, done, &slot, &mut written)?;
                free.push(slot);
            }
            if let Some(slot) = free.pop() {
                lane.submit(chunk, slot)?;
            }
        }
        while let Some((done, slot)) = lane.oldest()? {
            self.write(0, done, &slot, &mut written)?;
        }
        self.report(&mut lane, vec![written])
    }

    /// Writers in threads, the lane in this one.
    fn threaded(
        &self,
        lane: Lane<'_>,
        slots: Vec<Slot>,
        writers: usize,
    ) -> Result<Report, Stopped> {
        std::thread::scope(|scope| {
            let (free_in, free_out) = bounded(slots.len());
            let mut queues = Vec::new();
            let mut started: Vec<ScopedJoinHandle<'_, Result<Written, Stopped>>> = Vec::new();
            for writer in 0..writers {
                let (queue_in, queue_out) = bounded(slots.len());
                let free = free_in.clone();
                let thread = spawn(scope, format!("rf-write-{writer}"), move || {
                    self.run
                        .guard(self.job.gpu, || self.write_all(writer, &queue_out, &free))
                });
                if let Some(thread) = thread {
                    started.push(thread);
                    queues.push(queue_in);
                }
            }
            if started.is_empty() {
                return self.alone(lane, slots);
            }
            for slot in slots {
                // It has room for all of them.
                let _ = free_in.send(slot);
            }
            drop(free_in);
            // A panic of the lane must not leave the writers waiting: its ends of the channels go with it.
            let copied = self
                .run
                .guard(self.job.gpu, || self.copy_all(lane, queues, &free_out));
            drop(free_out);
            let mut all = Vec::new();
            for handle in started {
                // The guard has caught every panic, and recorded whatever failed.
                all.extend(handle.join().ok().and_then(Result::ok));
            }
            self.report(&mut copied?, all)
        })
    }

    /// The lane's part: copies everything and deals it out. The pieces of a unit go to one writer, in order,
    /// since its digest needs them so; each unit goes to the writer with the least to do. Dropping the
    /// queues ends the writers.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "its ends must go when the lane stops"
    )]
    fn copy_all<'a>(
        &self,
        mut lane: Lane<'a>,
        queues: Vec<Sender<Filled>>,
        free: &Receiver<Slot>,
    ) -> Result<Lane<'a>, Stopped> {
        let depth = self.layout.depth();
        let mut current = (usize::MAX, 0);
        let mut deal = |filled: Filled| {
            if filled.0.unit != current.0 {
                let least = (0..queues.len()).min_by_key(|queue| queues[*queue].len());
                current = (filled.0.unit, least.unwrap_or(0));
            }
            queues[current.1].send(filled).map_err(|_| Stopped)
        };
        for chunk in self.plan.all_chunks() {
            let slot = loop {
                if lane.in_flight() <= depth
                    && let Ok(slot) = free.try_recv()
                {
                    break slot;
                }
                if let Some(filled) = lane.oldest()? {
                    deal(filled)?;
                    continue;
                }
                match free.recv_timeout(SLICE) {
                    Ok(slot) => break slot,
                    Err(RecvTimeoutError::Timeout) => self.run.check()?,
                    Err(RecvTimeoutError::Disconnected) => return Err(Stopped),
                }
            };
            lane.submit(chunk, slot)?;
        }
        while let Some(filled) = lane.oldest()? {
            deal(filled)?;
        }
        Ok(lane)
    }

    /// A writer's part.
    fn write_all(
        &self,
        writer: usize,
        queue: &Receiver<Filled>,
        free: &Sender<Slot>,
    ) -> Result<Written, Stopped> {
        let mut written = Written::default();
        for (chunk, slot) in queue {
            self.run.check()?;
            self.write(writer, chunk, &slot, &mut written)?;
            // When the lane has stopped, nobody needs it.
            let _ = free.send(slot);
        }
        Ok(written)
    }

    fn write(
        &self,
        writer: usize,
        chunk: Chunk,
        slot: &Slot,
        written: &mut Written,
    ) -> Result<(), Stopped> {
        let plan = self.plan;
        let place = plan.file_offset(chunk);
        let bytes = &slot.bytes()[..chunk.len];
        let begin_ns = if self.job.timing { now_ns() } else { 0 };
        // Neighbours in the slot are neighbours in the file: one write for each run between holes.
        let mut run = 0..0;
        for part in plan.parts(chunk) {
            let range = part.range();
            let part_bytes = &bytes[range.clone()];
            let zero = is_zero(part_bytes);
            let hole = zero
                && self
                    .holes_from
                    .is_some_and(|start| place + range.start as u64 >= start);
            if hole {
                written.holes += part.len as u64;
                self.write_run(chunk, bytes, &run)?;
                run = range.end..range.end;
            } else {
                run.end = range.end;
            }
            written.hasher.update(part_bytes, zero);
            if part.last {
                let digest = std::mem::take(&mut written.hasher).finish();
                written.blocks.push((part.piece, digest));
            }
        }
        self.write_run(chunk, bytes, &run)?;
        if self.job.timing {
            let (bo, offset) = plan.object_at(chunk, place);
            written.events.push(Event {
                stage: Stage::Write,
                gpu: self.job.gpu,
                bo,
                offset,
                len: chunk.len,
                worker: writer,
                begin_ns,
                end_ns: now_ns(),
            });
        }
        Ok(())
    }

    /// Writes part of a slot.
    fn write_run(&self, chunk: Chunk, bytes: &[u8], run: &Range<usize>) -> Result<(), Stopped> {
        if run.is_empty() {
            return Ok(());
        }
        let place = self.plan.file_offset(chunk) + run.start as u64;
        self.file
            .write_at(&bytes[run.clone()], place)
            .map_err(|source| {
                let (bo, offset) = self.plan.object_at(chunk, source.offset());
                self.run.fail(PipelineError::Write {
                    gpu: self.job.gpu,
                    bo,
                    offset,
                    source,
                })
            })
    }

    fn report(&self, lane: &mut Lane<'_>, all: Vec<Written>) -> Result<Report, Stopped> {
        lane.check_complete()?;
        let mut report = Report {
            bytes: lane.bytes,
            copies: lane.copies,
            index: BlockIndex::default(),
            ..Report::default()
        };
        let mut blocks = Vec::with_capacity(self.plan.pieces.len());
        for mut written in all {
            blocks.append(&mut written.blocks);
            report.holes += written.holes;
            report.events.append(&mut written.events);
        }
        report.events.append(&mut lane.events);
        if blocks.len() != self.plan.pieces.len() {
            return Err(self.run.fail(PipelineError::Incomplete {
                gpu: self.job.gpu,
                done: blocks.len() as u64,
                wanted: self.plan.pieces.len() as u64,
            }));
        }
        // Pieces of one object are in order of their blocks.
        blocks.sort_unstable_by_key(|(piece, _)| *piece);
        report.index.bos.resize_with(self.job.bos.len(), Vec::new);
        for (piece, digest) in blocks {
            report.index.bos[self.plan.pieces[piece].bo].push(digest);
        }
        Ok(report)
    }
}
