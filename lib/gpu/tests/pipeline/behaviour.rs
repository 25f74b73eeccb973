//! Overlap, threads, signals, timing, and many small objects.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rocferry_gpu::pipeline::testing::{DelayedCopy, DelayedFile, MemoryEngine};
use rocferry_gpu::pipeline::{
    BoSpec, Event, FdFile, FileEngine, FileError, GpuTransfer, MAX_PARTS, Order, Stage, load, save,
};
use rocferry_topology::UserGpuId;

use crate::common::{Gpu, HEADER, PAGE, file_of, object, options, watched};

const GPU: UserGpuId = UserGpuId(1);
const DELAY: Duration = Duration::from_millis(20);

const PIECE: usize = 64 << 10;

/// 16 pieces, loaded or saved with both stages delayed. Returns time and events.
fn delayed(readers: usize, saving: bool) -> (Duration, Vec<Event>) {
    let shared = object(&[1; PIECE]);
    let image = if saving {
        HEADER.to_vec()
    } else {
        vec![1; 8 + 16 * PIECE]
    };
    let file = DelayedFile::new(FdFile::new(file_of(&image), "pages"), DELAY);
    let mut engine = DelayedCopy::new(MemoryEngine::new(), DELAY);
    let mut options = options(readers, 128);
    // Objects of their own, so that readers can share the work, and too large to share a slot.
    let size = PIECE as u64;
    let bos = (0..16).map(|n| BoSpec {
        dmabuf: shared.as_fd(),
        size,
        file_offset: 8 + n * size,
    });
    options.timing = true;
    let job = GpuTransfer {
        gpu: GPU,
        engine: &mut engine,
        file: &file,
        bos: bos.collect(),
        index: None,
    };
    let began = Instant::now();
    let reports = if saving {
        save(vec![job], &options)
    } else {
        load(vec![job], &options)
    };
    (began.elapsed(), reports.unwrap().remove(0).events)
}

/// How many reads or writes went on while something was copied.
fn overlaps(events: &[Event], other: Stage) -> usize {
    let of = |stage| events.iter().filter(move |event| event.stage == stage);
    let within = |inner: u64, outer: &Event| outer.begin_ns < inner && inner < outer.end_ns;
    of(other)
        .filter(|io| of(Stage::Copy).any(|copy| within(io.end_ns, copy) || within(copy.end_ns, io)))
        .count()
}

#[test]
fn stages_overlap_with_and_without_threads() {
    for saving in [false, true] {
        for readers in [0, 1, 4] {
            let lane = DELAY * 16;
            let other = if saving { Stage::Write } else { Stage::Read };
            // In sequence nothing would overlap. A busy machine may need several attempts.
            let mut attempts = (0..10)
                .map(|_| delayed(readers, saving))
                .inspect(|(time, _)| {
                    assert!(
                        *time >= lane,
                        "{readers} readers: {time:?}: the lane cannot be faster"
                    );
                });
            let (_, events) = attempts
                .find(|(_, events)| overlaps(events, other) >= 8)
                .unwrap();
            let of = |stage| events.iter().filter(move |event| event.stage == stage);
            assert_eq!(of(Stage::Copy).count(), 16);
            assert_eq!(of(other).count(), 16);
            assert!(events.iter().all(|event| event.begin_ns <= event.end_ns));
            assert!(
                events
                    .iter()
                    .all(|event| event.len == PIECE && event.gpu == GPU)
            );
            let copies: Vec<_> = of(Stage::Copy).collect();
            assert!(
                copies
                    .windows(2)
                    .all(|pair| pair[0].end_ns <= pair[1].begin_ns)
            );
        }
    }
}

/// A file that looks at the thread that uses it.
struct Witness<F> {
    inner: F,
    seen: Mutex<BTreeSet<(String, String)>>,
}

fn own_status(field: &str) -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line[field.len()..]
        .trim_start_matches(':')
        .trim()
        .to_owned()
}

impl<F: FileEngine> FileEngine for Witness<F> {
    fn order(&self) -> Order {
        self.inner.order()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError> {
        self.seen
            .lock()
            .unwrap()
            .insert((own_status("Name"), own_status("SigBlk")));
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), FileError> {
        self.seen
            .lock()
            .unwrap()
            .insert((own_status("Name"), own_status("SigBlk")));
        self.inner.write_at(buf, offset)
    }

    fn holes_from(&self) -> Result<Option<u64>, FileError> {
        self.inner.holes_from()
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        self.inner.set_len(len)
    }
}

#[test]
fn threads_have_names_and_no_signals_and_none_is_made_without_readers() {
    let before = own_status("SigBlk");
    for (readers, saving) in [(0, false), (0, true), (2, false), (2, true)] {
        let gpu = Gpu::new(1, &[3, 4, 5, 6], false);
        let image = if saving { HEADER.to_vec() } else { gpu.image() };
        let file = Witness {
            inner: FdFile::new(file_of(&image), "pages"),
            seen: Mutex::default(),
        };
        let mut engine = MemoryEngine::new();
        let job = GpuTransfer {
            gpu: GPU,
            engine: &mut engine,
            file: &file,
            bos: gpu.specs(),
            index: None,
        };
        let options = options(readers, 40);
        if saving {
            save(vec![job], &options)
        } else {
            load(vec![job], &options)
        }
        .unwrap();
        let seen = file.seen.into_inner().unwrap();
        if readers == 0 {
            let own: BTreeSet<_> = [(own_status("Name"), before.clone())].into();
            assert_eq!(seen, own, "all in the calling thread");
        } else {
            let prefix = if saving { "rf-write-" } else { "rf-read-" };
            for (name, blocked) in seen {
                assert!(name.starts_with(prefix), "{name}");
                // All but SIGKILL, SIGSTOP and the two that the C library keeps for itself.
                assert_eq!(blocked, "fffffffe7ffbfeff", "{name}");
            }
        }
        assert_eq!(
            own_status("SigBlk"),
            before,
            "the caller's own mask is as before"
        );
    }
}

#[test]
fn ten_thousand_small_objects() {
    let shared = object(&vec![7; PAGE]);
    let page = PAGE as u64;
    let bos: Vec<_> = (0..10_000)
        .map(|n| BoSpec {
            dmabuf: shared.as_fd(),
            size: page,
            file_offset: 8 + n * page,
        })
        .collect();
    let file = FdFile::new(file_of(&HEADER), "pages");
    for readers in [0, 4] {
        for saving in [true, false] {
            let mut engine = MemoryEngine::new();
            let job = GpuTransfer {
                gpu: GPU,
                engine: &mut engine,
                file: &file,
                bos: bos.clone(),
                index: None,
            };
            let options = options(readers, 32 * 1024);
            let began = Instant::now();
            let verb = if saving { save } else { load };
            let reports = watched(|| verb(vec![job], &options)).unwrap();
            assert!(reports[0].copies < 200, "small objects share copies");
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{:?}",
                began.elapsed()
            );
            assert_eq!(engine.rings, 1);
            assert_eq!(engine.attachments, 10_000);
            assert!(
                engine.most_attached <= 8 * MAX_PARTS,
                "{}",
                engine.most_attached
            );
        }
    }
}
