//! What is stored: a checkpoint like that of a process with GPUs, the same each time.
//!
//! 2 GiB in four large files, and some small ones. Of each large file's bytes 30 % are zeros, 40 % random and
//! 30 % floating point numbers, by turns in runs of 2 to 14 MiB. Three runs are a buffer. Blocks are aligned
//! to the buffers of all large files but the first, as they are to BOs; that one is a process's own memory.
//!
//! In the second version a tenth of the bytes is new: whole buffers, in which each run is of another kind
//! than before, so that the mix stays.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use rocferry_store::push::{Cut, Cuts};

const FILE_SIZE: u64 = 512 << 20;
const FILES: [&str; 4] = [
    "pages-1.img",
    "amdgpu-pages-1.img",
    "amdgpu-pages-2.img",
    "amdgpu-pages-3.img",
];
const PAGE: u64 = 4 << 10;
const RUNS_OF_A_BUFFER: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Zero,
    Random,
    Floats,
}

/// Kinds and their share, in percent.
const MIX: [(Kind, u64); 3] = [(Kind::Zero, 30), (Kind::Random, 40), (Kind::Floats, 30)];

#[derive(Clone, Copy, Debug)]
struct Run {
    kind: Kind,
    start: u64,
    size: u64,
    seed: u64,
}

type Buffer = Vec<Run>;

/// Which checkpoint of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    First,
    Second,
}

/// Writes a checkpoint to a directory that does not exist.
pub(crate) fn make(dir: &Path, version: Version) -> io::Result<()> {
    fs::create_dir(dir)?;
    let mut random = fastrand::Rng::with_seed(0);
    for number in 0..60usize {
        let mut small = vec![0; number * 997];
        random.fill(&mut small);
        fs::write(dir.join(format!("core-{number}.img")), small)?;
    }
    let mut bytes = Vec::new();
    for (index, name) in FILES.iter().enumerate() {
        let mut file = File::create(dir.join(name))?;
        for run in buffers(index, version).iter().flatten() {
            // No longer than some MiB.
            bytes.resize(usize::try_from(run.size).unwrap_or(0), 0);
            fill(run, &mut bytes);
            file.write_all(&bytes)?;
        }
    }
    Ok(())
}

/// The runs of a large file.
fn buffers(file: usize, version: Version) -> Vec<Buffer> {
    let mut random = fastrand::Rng::with_seed(1 + file as u64);
    let (mut buffers, mut position) = (Vec::new(), 0);
    let mut used = MIX.map(|(_, _)| 0u64);
    let mut changed = 0;
    while position < FILE_SIZE {
        let mut buffer = Buffer::new();
        for _ in 0..RUNS_OF_A_BUFFER {
            let left = FILE_SIZE - position;
            let size = left.min(random.u64(512..=3584) * PAGE);
            if size == 0 {
                break;
            }
            // The kind that is the furthest behind its share.
            let behind = |index: usize| {
                let wanted = (position + size) * MIX[index].1 / 100;
                wanted.saturating_sub(used[index])
            };
            let index = (0..MIX.len()).max_by_key(|index| behind(*index));
            let index = index.unwrap_or_default();
            used[index] += size;
            buffer.push(Run {
                kind: MIX[index].0,
                start: position,
                size,
                seed: random.u64(..),
            });
            position += size;
        }
        // As many that a tenth of what is behind us has changed, as far as buffers allow.
        let size: u64 = buffer.iter().map(|run| run.size).sum();
        if (changed + size / 2) * 10 <= position {
            changed += size;
            if version == Version::Second {
                change(&mut buffer);
            }
        }
        buffers.push(buffer);
    }
    buffers
}

/// Each run gets the kind of the one before it, and what is not zero is new.
fn change(buffer: &mut Buffer) {
    let mut before = buffer.last().map_or(Kind::Random, |run| run.kind);
    for run in buffer {
        before = std::mem::replace(&mut run.kind, before);
        run.seed = !run.seed;
    }
}

fn fill(run: &Run, bytes: &mut [u8]) {
    let mut random = fastrand::Rng::with_seed(run.seed);
    match run.kind {
        Kind::Zero => bytes.fill(0),
        Kind::Random => random.fill(bytes),
        Kind::Floats => {
            let (numbers, _) = bytes.as_chunks_mut::<4>();
            for number in numbers {
                *number = float(random.u64(..)).to_le_bytes();
            }
        }
    }
}

/// Activations of a layer, made with the precision of bfloat16 and kept as 32 bits: about normal, and none
/// below zero.
fn float(random: u64) -> f32 {
    let part = |shift: u32| (random >> shift & 0xffff) as f32;
    let sum = part(0) + part(16) + part(32) + part(48) - 2.0 * 65535.0;
    f32::from_bits((sum.max(0.0) / 65536.0).to_bits() & 0xffff_0000)
}

/// Where the buffers of GPUs begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferCuts;

impl Cuts for BufferCuts {
    fn cuts(&self, path: &str) -> Vec<Cut> {
        let file = FILES.iter().position(|name| *name == path);
        let Some(file) = file.filter(|file| *file > 0) else {
            return Vec::new();
        };
        let buffers = buffers(file, Version::First);
        let starts = buffers.iter().filter_map(|runs| runs.first());
        let cut = |run: &Run| Cut {
            at: run.start,
            label: None,
        };
        starts.map(cut).collect()
    }
}
