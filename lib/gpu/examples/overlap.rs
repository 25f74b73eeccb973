//! Do reading and copying overlap? Both stages take 20 ms a piece here; in sequence that would be 40 ms a
//! piece. Prints one JSON object a line and fails when a limit is missed: with one reader at most
//! 1.15 x (n + 1) x 20 ms, and however many readers, n x 20 ms at least, since there is one copy lane. The
//! best of three runs counts: what else the machine does only makes it slower.

use std::error::Error;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rocferry_gpu::pipeline::testing::{DelayedCopy, DelayedFile, MemoryEngine};
use rocferry_gpu::pipeline::{BoSpec, Budget, FdFile, GpuTransfer, Options, load};
use rocferry_topology::UserGpuId;
use rustix::fs::{MemfdFlags, memfd_create};

const RUNS: usize = 3;
const CHUNKS: u64 = 32;
const CHUNK_BYTES: u64 = 64 << 10;
const DELAY: Duration = Duration::from_millis(20);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut missed = false;
    for readers in [1, 4] {
        let mut measured = measure(readers)?;
        for _ in 1..RUNS {
            measured = measured.min(measure(readers)?);
        }
        let lane = DELAY * u32::try_from(CHUNKS)?;
        let limit = (lane + DELAY).mul_f64(1.15);
        missed |= measured < lane || readers == 1 && measured > limit;
        writeln!(
            std::io::stdout(),
            "{{\"bench\":\"overlap\",\"readers\":{readers},\"chunks\":{CHUNKS},\
             \"sequential_ms\":{},\"measured_ms\":{:.1}}}",
            (lane * 2).as_millis(),
            measured.as_secs_f64() * 1000.0
        )?;
    }
    Ok(if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Loads the chunks, each an object of its own, so that readers can share them.
fn measure(readers: usize) -> Result<Duration, Box<dyn Error>> {
    let file = std::fs::File::from(memfd_create("pages", MemfdFlags::CLOEXEC)?);
    let object = std::fs::File::from(memfd_create("bo", MemfdFlags::CLOEXEC)?);
    file.set_len(CHUNKS * CHUNK_BYTES)?;
    object.set_len(CHUNK_BYTES)?;
    for chunk in 0..CHUNKS {
        file.write_all_at(&chunk.to_le_bytes(), chunk * CHUNK_BYTES)?;
    }
    let file = DelayedFile::new(FdFile::new(file, "pages"), DELAY);
    let mut engine = DelayedCopy::new(MemoryEngine::new(), DELAY);
    let bos = (0..CHUNKS).map(|chunk| BoSpec {
        dmabuf: object.as_fd(),
        size: CHUNK_BYTES,
        file_offset: chunk * CHUNK_BYTES,
    });
    let job = GpuTransfer {
        gpu: UserGpuId(1),
        engine: &mut engine,
        file: &file,
        bos: bos.collect(),
        index: None,
    };
    let options = Options {
        readers,
        budget: Budget {
            per_gpu: 8 * CHUNK_BYTES,
            ..Budget::default()
        },
        ..Options::default()
    };
    let began = Instant::now();
    load(vec![job], &options)?;
    Ok(began.elapsed())
}
