//! Two GPUs at once, with pauses at chance places: whatever the order in which readers, writers and lanes
//! run, and on a single processor as well, a transfer ends, with every byte or with the error that was made.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rocferry_gpu::pipeline::testing::{Fault, FaultyCopy, FaultyFile, MemoryEngine, Step};
use rocferry_gpu::pipeline::{
    Attached, CopyEngine, CopyError, CopyJob, FdFile, FileEngine, FileError, GpuTransfer, Options,
    Order, PipelineError, Report, RingLayout, Slot, Ticket, Waited, load, save,
};
use rocferry_topology::UserGpuId;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::common::{Gpu, HEADER, contents, file_of, options, watched};

const ROUNDS: u64 = 12;

/// A source of chance that every thread of a transfer draws from.
struct Chance(AtomicU64);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A number below `limit`.
    fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (state ^ (state >> 31)) % limit
    }

    /// Lets others run: not at all, for one turn, or for a while.
    fn pause(&self) {
        match self.below(8) {
            0 => std::thread::sleep(Duration::from_micros(self.below(300))),
            1..4 => std::thread::yield_now(),
            _ => {}
        }
    }
}

/// A stage with a pause before and after everything that it does.
struct Jitter<'a, T> {
    inner: T,
    chance: &'a Chance,
}

impl<T> fmt::Debug for Jitter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jitter").finish_non_exhaustive()
    }
}

impl<T> Jitter<'_, T> {
    fn around<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        self.chance.pause();
        let result = work(&mut self.inner);
        self.chance.pause();
        result
    }

    fn around_shared<R>(&self, work: impl FnOnce(&T) -> R) -> R {
        self.chance.pause();
        let result = work(&self.inner);
        self.chance.pause();
        result
    }
}

impl<T: FileEngine> FileEngine for Jitter<'_, T> {
    fn order(&self) -> Order {
        self.inner.order()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError> {
        self.around_shared(|inner| inner.read_at(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), FileError> {
        self.around_shared(|inner| inner.write_at(buf, offset))
    }

    fn holes_from(&self) -> Result<Option<u64>, FileError> {
        self.inner.holes_from()
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        self.around_shared(|inner| inner.set_len(len))
    }
}

impl<T: CopyEngine> CopyEngine for Jitter<'_, T> {
    fn stage(&mut self, layout: RingLayout) -> Result<Vec<Slot>, CopyError> {
        self.around(|inner| inner.stage(layout))
    }

    fn attach(
        &mut self,
        dmabuf: BorrowedFd<'_>,
        offset: u64,
        len: u64,
    ) -> Result<Attached, CopyError> {
        self.around(|inner| inner.attach(dmabuf, offset, len))
    }

    fn submit(&mut self, slot: Slot, job: CopyJob<'_>) -> Result<Ticket, CopyError> {
        self.around(|inner| inner.submit(slot, job))
    }

    fn wait(&mut self, ticket: Ticket, limit: Duration) -> Result<Waited, CopyError> {
        // A copy that takes several looks.
        if self.chance.below(3) == 0 {
            self.chance.pause();
            return Ok(Waited::Busy(ticket));
        }
        self.around(|inner| inner.wait(ticket, limit))
    }

    fn detach(&mut self, bo: Attached) -> Result<(), CopyError> {
        self.around(|inner| inner.detach(bo))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verb {
    Load,
    Save,
}

/// A fault that is made after so many calls of a step of the second GPU.
type Planned = (Step, usize);

/// What a round left.
struct Round {
    result: Result<Vec<Report>, PipelineError>,
    /// Does everything lie where it belongs?
    whole: bool,
}

fn round(seed: u64, verb: Verb, options: &Options, planned: Option<Planned>) -> Round {
    let chance = Chance::new(seed);
    let sizes = [[3, 1, 9, 1, 2], [1, 1, 1, 14, 5]];
    let mut gpus: Vec<_> = sizes
        .iter()
        .zip(seed..)
        .map(|(pages, seed)| Gpu::new(seed, pages, seed.is_multiple_of(2)))
        .collect();
    let images: Vec<_> = gpus.iter().map(Gpu::image).collect();
    if verb == Verb::Load {
        gpus = gpus.iter().map(Gpu::poisoned).collect();
    }
    let handles: Vec<_> = images
        .iter()
        .map(|image| {
            file_of(if verb == Verb::Load {
                image
            } else {
                &HEADER[..]
            })
        })
        .collect();
    // A step that is never reached so often stands for no fault.
    let (step, after) = planned.unwrap_or((Step::SetLen, usize::MAX));
    let fault = |gpu: usize| if gpu == 1 { after } else { usize::MAX };
    let error = Fault::Errno(Errno::IO);
    let files: Vec<_> = (0..2)
        .map(|gpu| Jitter {
            inner: FaultyFile::new(FdFile::new(&handles[gpu], "pages"), step, fault(gpu), error),
            chance: &chance,
        })
        .collect();
    let mut engines: Vec<_> = (0..2)
        .map(|gpu| Jitter {
            inner: FaultyCopy::new(MemoryEngine::new(), step, fault(gpu), error),
            chance: &chance,
        })
        .collect();
    let indices: Vec<_> = gpus.iter().map(Gpu::index).collect();
    let mut jobs = Vec::new();
    for (gpu, engine) in engines.iter_mut().enumerate() {
        jobs.push(GpuTransfer {
            gpu: UserGpuId(u32::try_from(gpu).unwrap()),
            engine,
            file: &files[gpu],
            bos: gpus[gpu].specs(),
            index: (verb == Verb::Load).then_some(&indices[gpu]),
        });
    }
    let result = watched(|| match verb {
        Verb::Load => load(jobs, options),
        Verb::Save => save(jobs, options),
    });
    let found: Vec<_> = match verb {
        Verb::Load => gpus
            .iter()
            .flat_map(|gpu| &gpu.objects)
            .map(|object| contents(object.as_fd()))
            .collect(),
        Verb::Save => handles.iter().map(|file| contents(file.as_fd())).collect(),
    };
    let wanted = match verb {
        Verb::Load => gpus.iter().flat_map(|gpu| gpu.bytes.clone()).collect(),
        Verb::Save => images,
    };
    let whole = found == wanted;
    Round { result, whole }
}

/// Readers and pages of the ring, the tightest included.
fn shapes() -> impl Iterator<Item = Options> {
    let shapes = [(1, 1), (1, 2), (2, 1), (2, 3), (4, 2), (4, 7), (4, 64)];
    shapes
        .into_iter()
        .map(|(readers, pages)| options(readers, pages))
}

/// Runs `work` on all processors, and then, with all threads that it makes, on one.
fn on_many_and_on_one(work: impl Fn(u64)) {
    work(1);
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
    work(1_000_000);
    sched_setaffinity(None, &all).unwrap();
}

#[test]
fn every_order_of_events_ends_with_every_byte() {
    on_many_and_on_one(|base| {
        for seed in base..base + ROUNDS {
            for (options, verb) in shapes().flat_map(|o| [(o, Verb::Save), (o, Verb::Load)]) {
                let round = round(seed, verb, &options, None);
                assert!(
                    round.result.is_ok() && round.whole,
                    "seed {seed}, {verb:?}, {options:?}: {:?}",
                    round.result
                );
            }
        }
    });
}

#[test]
fn every_order_of_events_ends_with_the_error_that_was_made() {
    on_many_and_on_one(|base| {
        for seed in base..base + ROUNDS {
            for (options, verb) in shapes().flat_map(|o| [(o, Verb::Save), (o, Verb::Load)]) {
                let io = if verb == Verb::Save {
                    Step::Write
                } else {
                    Step::Read
                };
                let steps = [io, Step::Submit, Step::Wait, Step::Attach];
                let chance = Chance::new(seed);
                let step = steps[usize::try_from(chance.below(4)).unwrap()];
                let planned = (step, usize::try_from(chance.below(4)).unwrap());
                let error = round(seed, verb, &options, Some(planned)).result;
                // A large ring has fewer steps than the fault waits for.
                let Err(error) = error else { continue };
                assert!(
                    error.to_string().contains("GPU 0x0001"),
                    "seed {seed}, {verb:?}, {planned:?}: {error}"
                );
            }
        }
    });
}
