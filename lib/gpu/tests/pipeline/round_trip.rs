//! Random sets of objects against the naive way.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use proptest::prelude::*;
use rocferry_gpu::pipeline::testing::MemoryEngine;
use rocferry_gpu::pipeline::{
    FdFile, FileEngine, GpuTransfer, Options, PipelineError, Report, StreamFile, load, save,
};
use rocferry_topology::UserGpuId;

use crate::common::{Gpu, HEADER, PAGE, contents, file_of, options, watched};

fn id(gpu: usize) -> UserGpuId {
    UserGpuId(0x1000 + u32::try_from(gpu).unwrap())
}

fn save_all(
    gpus: &[Gpu],
    files: &[impl AsFd + Sync],
    options: &Options,
) -> Result<Vec<Report>, PipelineError> {
    let mut engines: Vec<_> = gpus.iter().map(|_| MemoryEngine::new()).collect();
    let files: Vec<_> = files
        .iter()
        .map(|file| FdFile::new(file, "pages"))
        .collect();
    let jobs = gpus.iter().zip(&mut engines).zip(&files).enumerate();
    let jobs = jobs.map(|(number, ((gpu, engine), file))| GpuTransfer {
        gpu: id(number),
        engine,
        file,
        bos: gpu.specs(),
        index: None,
    });
    let reports = save(jobs.collect(), options);
    assert!(
        engines
            .iter()
            .all(|engine| engine.attached() == 0 && engine.rings <= 1)
    );
    reports
}

fn load_all(
    gpus: &[Gpu],
    files: &[File],
    reports: &[Report],
    options: &Options,
) -> Result<Vec<Report>, PipelineError> {
    let mut engines: Vec<_> = gpus.iter().map(|_| MemoryEngine::new()).collect();
    let files: Vec<_> = files
        .iter()
        .map(|file| FdFile::new(file, "pages"))
        .collect();
    let jobs = gpus
        .iter()
        .zip(&mut engines)
        .zip(&files)
        .zip(reports)
        .enumerate();
    let jobs = jobs.map(|(number, (((gpu, engine), file), report))| GpuTransfer {
        gpu: id(number),
        engine,
        file,
        bos: gpu.specs(),
        index: Some(&report.index),
    });
    load(jobs.collect(), options)
}

fn new_files(count: usize) -> Vec<File> {
    (0..count).map(|_| file_of(&HEADER)).collect()
}

fn assert_round_trip(gpus: &[Gpu], options: &Options) {
    let files = new_files(gpus.len());
    let reports = save_all(gpus, &files, options).unwrap();
    for ((gpu, file), report) in gpus.iter().zip(&files).zip(&reports) {
        assert!(contents(file.as_fd()) == gpu.image(), "the file differs");
        assert!(report.index == gpu.index(), "the index differs");
        assert_eq!(
            report.bytes,
            gpu.bytes
                .iter()
                .map(|bytes| bytes.len() as u64)
                .sum::<u64>()
        );
    }
    let fresh: Vec<_> = gpus.iter().map(Gpu::poisoned).collect();
    load_all(&fresh, &files, &reports, options).unwrap();
    fresh.iter().for_each(Gpu::assert_restored);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_byte_survives(
        gpus in prop::collection::vec(prop::collection::vec(0_usize..40, 0..6), 1..4),
        readers in 0_usize..5,
        ring_pages in 1_usize..100,
        reversed: bool,
        seed in 0_u64..1000,
    ) {
        let gpus: Vec<_> =
            gpus.iter().zip(seed..).map(|(pages, seed)| Gpu::new(seed, pages, reversed)).collect();
        watched(|| assert_round_trip(&gpus, &options(readers, ring_pages)));
    }
}

#[test]
fn objects_larger_than_blocks_and_rings() {
    // 4 MiB are 1024 pages.
    for (readers, ring_pages) in [(0, 1), (0, 2048), (1, 3), (3, 700), (4, 32 * 1024)] {
        let gpus = [
            Gpu::new(7, &[1024, 3, 2500, 1], false),
            Gpu::new(8, &[1023, 1025], true),
        ];
        watched(|| assert_round_trip(&gpus, &options(readers, ring_pages)));
    }
}

#[test]
fn nothing_to_do() {
    for readers in [0, 4] {
        assert_round_trip(&[], &options(readers, 10));
        assert_round_trip(&[Gpu::new(1, &[], false)], &options(readers, 10));
        assert_round_trip(&[Gpu::new(1, &[0, 0], false)], &options(readers, 10));
    }
}

#[test]
fn zeros_leave_holes_and_old_contents_do_not_show_through() {
    let mut gpu = Gpu::new(3, &[2048], false);
    gpu.bytes[0].fill(0);
    gpu.bytes[0][5 * PAGE] = 1;
    gpu.objects[0] = crate::common::object(&gpu.bytes[0]);
    let image = gpu.image();
    let gpus = [gpu];
    let files = new_files(1);
    let reports = save_all(&gpus, &files, &options(2, 64)).unwrap();
    assert_eq!(contents(files[0].as_fd()), image);
    assert!(reports[0].holes > 1900 * PAGE as u64);
    assert!(files[0].metadata().unwrap().blocks() * 512 < 300 * PAGE as u64);
    // A file that is neither empty nor of the right length.
    let old = file_of(&vec![0xee; image.len() + 100]);
    old.write_all_at(&HEADER, 0).unwrap();
    let reports = save_all(&gpus, &[&old], &options(2, 64)).unwrap();
    assert_eq!(contents(old.as_fd()), image);
    assert_eq!(reports[0].holes, 0);
}

#[test]
fn streams_go_through_pipes() {
    for readers in [0, 1, 4] {
        let gpu = Gpu::new(11, &[3, 1500, 1], false);
        let image = gpu.image();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let saved = watched(|| {
            std::thread::scope(|scope| {
                let pump = scope.spawn(|| {
                    let mut bytes = Vec::new();
                    std::io::Read::read_to_end(&mut File::from(reader), &mut bytes).unwrap();
                    bytes
                });
                let file = StreamFile::new(writer, "pages", 8, Duration::from_secs(60)).unwrap();
                run_one(&gpu, &file, readers, |job, options| {
                    save(vec![job], options)
                })
                .unwrap();
                drop(file);
                pump.join().unwrap()
            })
        });
        assert!(saved == image[8..], "the stream differs");
        let fresh = gpu.poisoned();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        watched(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| std::io::Write::write_all(&mut File::from(writer), &saved).unwrap());
                let file = StreamFile::new(reader, "pages", 8, Duration::from_secs(60)).unwrap();
                run_one(&fresh, &file, readers, |job, options| {
                    load(vec![job], options)
                })
                .unwrap();
            });
        });
        fresh.assert_restored();
    }
}

fn run_one<T>(
    gpu: &Gpu,
    file: &dyn FileEngine,
    readers: usize,
    verb: impl FnOnce(GpuTransfer<'_>, &Options) -> T,
) -> T {
    let mut engine = MemoryEngine::new();
    let job = GpuTransfer {
        gpu: id(0),
        engine: &mut engine,
        file,
        bos: gpu.specs(),
        index: None,
    };
    verb(job, &options(readers, 300))
}

#[test]
fn a_damaged_block_is_named() {
    let gpus = [Gpu::new(5, &[10], false), Gpu::new(6, &[4, 3000], false)];
    let files = new_files(2);
    let reports = save_all(&gpus, &files, &options(3, 5000)).unwrap();
    // In the third block of the second object, in a page that holds something or nothing alike.
    let at = gpus[1].offsets[1] + (2 * 1024 + 100) * PAGE as u64;
    let mut byte = [0];
    files[1].read_exact_at(&mut byte, at).unwrap();
    files[1].write_all_at(&[byte[0] ^ 1], at).unwrap();
    for (readers, ring_pages) in [(0, 5000), (3, 5000), (2, 7)] {
        let fresh: Vec<_> = gpus.iter().map(Gpu::poisoned).collect();
        let error = watched(|| load_all(&fresh, &files, &reports, &options(readers, ring_pages)));
        let error = error.unwrap_err();
        assert!(
            matches!(error, PipelineError::Mismatch { gpu, bo: 1, block: 2 } if gpu == id(1)),
            "{error}"
        );
    }
}

#[test]
fn a_short_file_is_named_with_the_place_where_it_ends() {
    let gpus = [Gpu::new(5, &[10, 20], false)];
    let files = [file_of(&gpus[0].image()[..8 + 25 * PAGE + 1])];
    let reports = [Report {
        index: gpus[0].index(),
        ..Report::default()
    }];
    for readers in [0, 2] {
        let error = load_all(&gpus, &files, &reports, &options(readers, 100)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Cannot read BO 1 of GPU 0x1000 from byte 61441 on"
        );
        let cause = std::error::Error::source(&error).unwrap().to_string();
        let end = 8 + 25 * PAGE + 1;
        assert_eq!(
            cause,
            format!("File pages ends at byte {end}, 20479 bytes too early for this piece")
        );
    }
}

#[test]
fn an_index_of_another_shape_is_refused() {
    let gpus = [Gpu::new(5, &[10, 2000], false)];
    let files = [file_of(&gpus[0].image())];
    let mut index = gpus[0].index();
    index.bos[1].pop();
    let report = Report {
        index,
        ..Report::default()
    };
    let error = load_all(&gpus, &files, &[report], &options(1, 100)).unwrap_err();
    assert!(
        matches!(error, PipelineError::BadRequest { bo: 1, .. }),
        "{error}"
    );
    let report = Report::default();
    let error = load_all(&gpus, &files, &[report], &options(1, 100)).unwrap_err();
    assert!(matches!(error, PipelineError::BadRequest { .. }), "{error}");
}
