//! A fault at every place ends the call with an error that names the object.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rocferry_gpu::pipeline::testing::{Fault, FaultyCopy, FaultyFile, MemoryEngine, Step};
use rocferry_gpu::pipeline::{
    Attached, CopyEngine, CopyError, CopyJob, FdFile, FileEngine, FileError, GpuTransfer, Options,
    PipelineError, Report, RingLayout, Slot, StreamFile, Ticket, Waited, load, save,
};
use rocferry_topology::UserGpuId;
use rustix::io::Errno;

use crate::common::{Gpu, HEADER, file_of, options, watched};

const FILE_FAULTS: [Fault; 3] = [Fault::Errno(Errno::NOSPC), Fault::Short, Fault::Panic];
const COPY_FAULTS: [Fault; 2] = [Fault::Errno(Errno::CANCELED), Fault::Panic];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verb {
    Load,
    Save,
}

impl Verb {
    fn run(
        self,
        jobs: Vec<GpuTransfer<'_>>,
        options: &Options,
    ) -> Result<Vec<Report>, PipelineError> {
        match self {
            Self::Load => load(jobs, options),
            Self::Save => save(jobs, options),
        }
    }

    fn file(self, gpu: &Gpu) -> FdFile<std::fs::File> {
        let bytes = if self == Self::Load {
            gpu.image()
        } else {
            HEADER.to_vec()
        };
        FdFile::new(file_of(&bytes), "pages")
    }
}

/// Runs one GPU with a fault after `after` good calls of `step`; `None` when it was never reached.
fn one(
    verb: Verb,
    step: Step,
    after: usize,
    fault: Fault,
    options: &Options,
) -> Option<PipelineError> {
    let mut gpu = Gpu::new(1, &[5, 1, 3], false);
    // Every page holds something, so that all are written.
    for bytes in &mut gpu.bytes {
        bytes.chunks_mut(512).for_each(|part| part[0] = 1);
    }
    gpu.objects = gpu
        .bytes
        .iter()
        .map(|bytes| crate::common::object(bytes))
        .collect();
    let target = if verb == Verb::Load {
        gpu.poisoned()
    } else {
        gpu
    };
    let file = FaultyFile::new(verb.file(&target), step, after, fault);
    let mut engine = FaultyCopy::new(MemoryEngine::new(), step, after, fault);
    let result = watched(|| {
        let job = GpuTransfer {
            gpu: UserGpuId(0xabc),
            engine: &mut engine,
            file: &file,
            bos: target.specs(),
            index: None,
        };
        verb.run(vec![job], options)
    });
    if !matches!(fault, Fault::Panic | Fault::Hang) && step != Step::Detach {
        assert_eq!(engine.inner().attached(), 0, "something stays attached");
    }
    match result {
        Ok(_) => None,
        Err(error) => {
            assert!(error.to_string().contains("GPU 0x0abc"), "{error}");
            Some(error)
        }
    }
}

/// The fault at every position of a step, until it is not reached any more: with slots of one page, which
/// make nine pieces, and with slots that hold all the objects together.
fn everywhere(verb: Verb, step: Step, faults: &[Fault], at_least: [usize; 2]) {
    for (ring_pages, at_least) in [2, 100].into_iter().zip(at_least) {
        everywhere_in(verb, step, faults, ring_pages, at_least);
    }
}

fn everywhere_in(verb: Verb, step: Step, faults: &[Fault], ring_pages: usize, at_least: usize) {
    for readers in [0, 1, 3] {
        for fault in faults {
            let options = options(readers, ring_pages);
            let mut reached = 0;
            while let Some(error) = one(verb, step, reached, *fault, &options) {
                let expected = match (step, fault) {
                    (_, Fault::Panic) => matches!(error, PipelineError::Panicked { .. }),
                    (Step::Stage, _) => matches!(error, PipelineError::Staging { .. }),
                    (Step::Attach | Step::Detach, _) => {
                        matches!(error, PipelineError::Attach { .. })
                    }
                    (Step::Submit | Step::Wait, _) => matches!(error, PipelineError::Copy { .. }),
                    (Step::Read, _) => matches!(error, PipelineError::Read { .. }),
                    (Step::Write, _) => matches!(error, PipelineError::Write { .. }),
                    (Step::SetLen, _) => matches!(error, PipelineError::Length { .. }),
                };
                assert!(expected, "{verb:?} {step:?} {fault:?} {reached}: {error:?}");
                reached += 1;
            }
            assert!(
                reached >= at_least,
                "{verb:?} {step:?}: reached {reached} times"
            );
        }
    }
}

#[test]
fn reading() {
    everywhere(Verb::Load, Step::Read, &FILE_FAULTS, [9, 1]);
}

#[test]
fn writing() {
    everywhere(Verb::Save, Step::Write, &FILE_FAULTS, [9, 1]);
    everywhere(Verb::Save, Step::SetLen, &FILE_FAULTS[..1], [1, 1]);
}

#[test]
fn copying() {
    for verb in [Verb::Load, Verb::Save] {
        everywhere(verb, Step::Stage, &COPY_FAULTS, [1, 1]);
        everywhere(verb, Step::Attach, &COPY_FAULTS, [3, 3]);
        everywhere(verb, Step::Submit, &COPY_FAULTS, [9, 1]);
        everywhere(verb, Step::Wait, &COPY_FAULTS, [9, 1]);
        everywhere(verb, Step::Detach, &COPY_FAULTS, [3, 3]);
    }
}

#[test]
fn a_copy_that_never_ends() {
    for verb in [Verb::Load, Verb::Save] {
        for readers in [0, 2] {
            for after in [0, 4, 8] {
                let mut options = options(readers, 2);
                options.copy_timeout = Duration::from_millis(50);
                let error = one(verb, Step::Wait, after, Fault::Hang, &options).unwrap();
                assert!(matches!(error, PipelineError::TimedOut { .. }), "{error}");
            }
        }
    }
}

#[test]
fn one_gpu_of_several_stops_all_and_is_named() {
    for verb in [Verb::Load, Verb::Save] {
        for broken in 0..4 {
            for readers in [0, 2] {
                let gpus: Vec<_> = (0..4)
                    .map(|seed| Gpu::new(seed, &[700, 300], false))
                    .collect();
                let files: Vec<_> = gpus.iter().map(|gpu| verb.file(gpu)).collect();
                let files: Vec<_> = files.iter().map(|file| file as &dyn FileEngine).collect();
                let mut engines: Vec<_> = (0..4)
                    .map(|gpu| {
                        let after = if gpu == broken { 3 } else { usize::MAX };
                        FaultyCopy::new(
                            MemoryEngine::new(),
                            Step::Submit,
                            after,
                            Fault::Errno(Errno::NODEV),
                        )
                    })
                    .collect();
                let jobs = gpus.iter().zip(&mut engines).zip(files).zip(0..);
                let jobs = jobs.map(|(((gpu, engine), file), number)| GpuTransfer {
                    gpu: UserGpuId(number),
                    engine: engine as &mut dyn CopyEngine,
                    file,
                    bos: gpu.specs(),
                    index: None,
                });
                let jobs = jobs.collect();
                let error = watched(|| verb.run(jobs, &options(readers, 8))).unwrap_err();
                assert!(
                    matches!(error, PipelineError::Copy { gpu, .. } if gpu == UserGpuId(broken)),
                    "{error}"
                );
                assert!(engines.iter().all(|engine| engine.inner().attached() == 0));
            }
        }
    }
}

/// Reality: a file system without room, for which /dev/full stands.
#[test]
fn no_space() {
    let gpu = Gpu::new(1, &[5], false);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let file = FdFile::new(full, "full");
    let mut engine = MemoryEngine::new();
    let job = GpuTransfer {
        gpu: UserGpuId(1),
        engine: &mut engine,
        file: &file,
        bos: gpu.specs(),
        index: None,
    };
    let error = save(vec![job], &options(2, 8)).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(
        error.to_string(),
        "Cannot write BO 0 of GPU 0x0001 from byte 0 on"
    );
    assert_eq!(cause.to_string(), "Write of full at byte 8 failed");
}

#[test]
fn a_stream_that_stands_still_ends_the_transfer_and_names_the_object() {
    let patience = Duration::from_millis(100);
    for readers in [0, 1, 3] {
        let gpu = Gpu::new(1, &[1, 600, 2], false);
        let image = gpu.image();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        for verb in [Verb::Save, Verb::Load] {
            // Neither end is used by anybody else: a pipe holds 16 pages, and the other one 2 of them.
            let end = if verb == Verb::Save {
                writer.try_clone().unwrap()
            } else {
                let (half, full) = rustix::pipe::pipe().unwrap();
                rustix::io::write(&full, &image[8..8 + 2 * 4096]).unwrap();
                std::mem::forget(full);
                half
            };
            let file = StreamFile::new(end, "pages", 8, patience).unwrap();
            let mut engine = MemoryEngine::new();
            let error = watched(|| {
                let job = GpuTransfer {
                    gpu: UserGpuId(0xabc),
                    engine: &mut engine,
                    file: &file,
                    bos: gpu.specs(),
                    index: None,
                };
                verb.run(vec![job], &options(readers, 4)).unwrap_err()
            });
            let (PipelineError::Write { bo, source, .. } | PipelineError::Read { bo, source, .. }) =
                &error
            else {
                panic!("{verb:?}: {error}");
            };
            assert_eq!(*bo, 1, "{verb:?}");
            assert!(matches!(source, FileError::Stalled { .. }), "{source}");
        }
        drop(reader);
    }
}

/// An engine that does what a kernel may do: taking an object away from a copy that goes on waits for it.
struct Patient<C> {
    inner: C,
    busy: bool,
    would_wait: bool,
}

impl<C: CopyEngine> CopyEngine for Patient<C> {
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
        self.inner.submit(slot, job)
    }

    fn wait(&mut self, ticket: Ticket, limit: Duration) -> Result<Waited, CopyError> {
        let waited = self.inner.wait(ticket, limit);
        self.busy |= matches!(waited, Ok(Waited::Busy(_)));
        waited
    }

    fn detach(&mut self, bo: Attached) -> Result<(), CopyError> {
        self.would_wait |= self.busy;
        self.inner.detach(bo)
    }
}

#[test]
fn nothing_is_taken_away_from_a_copy_that_does_not_end() {
    for (verb, readers) in [Verb::Load, Verb::Save]
        .into_iter()
        .flat_map(|verb| [(verb, 0), (verb, 1), (verb, 3)])
    {
        let gpu = Gpu::new(1, &[5, 1, 3], false);
        let file = verb.file(&gpu);
        let mut engine = Patient {
            inner: FaultyCopy::new(MemoryEngine::new(), Step::Wait, 1, Fault::Hang),
            busy: false,
            would_wait: false,
        };
        let options = Options {
            copy_timeout: Duration::from_millis(100),
            ..options(readers, 4)
        };
        let error = watched(|| {
            let job = GpuTransfer {
                gpu: UserGpuId(0xabc),
                engine: &mut engine,
                file: &file,
                bos: gpu.specs(),
                index: None,
            };
            verb.run(vec![job], &options).unwrap_err()
        });
        assert!(matches!(error, PipelineError::TimedOut { .. }), "{error}");
        assert!(!engine.would_wait);
        assert!(engine.inner.inner().attached() > 0);
    }
}
