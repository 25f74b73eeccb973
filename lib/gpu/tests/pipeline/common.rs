//! Buffer objects in memory, a naive copy to compare with, and a watchdog.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::time::Duration;

use rocferry_gpu::pipeline::{BLOCK, BlockDigest, BlockIndex, BoSpec, Budget, Options};
use rustix::fs::{MemfdFlags, memfd_create};

pub(crate) const PAGE: usize = 4096;

/// A memfd that stands for a buffer object.
pub(crate) fn object(contents: &[u8]) -> OwnedFd {
    let fd = memfd_create("bo", MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(fd);
    file.set_len(contents.len() as u64).unwrap();
    file.write_all_at(contents, 0).unwrap();
    file.into()
}

/// What an object holds.
pub(crate) fn contents(object: BorrowedFd<'_>) -> Vec<u8> {
    let file = File::from(object.try_clone_to_owned().unwrap());
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Bytes that differ from page to page; about every third page is zero.
pub(crate) fn pattern(seed: u64, pages: usize) -> Vec<u8> {
    let mut bytes = vec![0; pages * PAGE];
    for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number as u64) << 17 ^ 1;
        state ^= state >> 29;
        state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        if state.is_multiple_of(3) {
            continue;
        }
        for word in page.chunks_mut(8) {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
    bytes
}

/// The objects of one GPU and where their contents lie in the file.
pub(crate) struct Gpu {
    pub(crate) bytes: Vec<Vec<u8>>,
    pub(crate) objects: Vec<OwnedFd>,
    pub(crate) offsets: Vec<u64>,
}

impl Gpu {
    /// Objects of so many pages, one after the other in the file behind a header of 8 bytes; in the file
    /// they lie in the opposite order when `reversed`.
    pub(crate) fn new(seed: u64, pages: &[usize], reversed: bool) -> Self {
        let bytes: Vec<_> = pages
            .iter()
            .zip(seed * 1000..)
            .map(|(pages, seed)| pattern(seed, *pages))
            .collect();
        let mut offsets = vec![0; pages.len()];
        let mut at = 8;
        let mut order: Vec<_> = (0..pages.len()).collect();
        if reversed {
            order.reverse();
        }
        for bo in order {
            offsets[bo] = at;
            at += bytes[bo].len() as u64;
        }
        let objects = bytes.iter().map(|bytes| object(bytes)).collect();
        Self {
            bytes,
            objects,
            offsets,
        }
    }

    /// The same GPU with objects that hold something else.
    pub(crate) fn poisoned(&self) -> Self {
        let poison = |bytes: &Vec<u8>| object(&vec![0xa5; bytes.len()]);
        Self {
            bytes: self.bytes.clone(),
            objects: self.bytes.iter().map(poison).collect(),
            offsets: self.offsets.clone(),
        }
    }

    pub(crate) fn specs(&self) -> Vec<BoSpec<'_>> {
        self.objects
            .iter()
            .zip(&self.bytes)
            .zip(&self.offsets)
            .map(|((object, bytes), offset)| BoSpec {
                dmabuf: object.as_fd(),
                size: bytes.len() as u64,
                file_offset: *offset,
            })
            .collect()
    }

    /// The file as it must be, the naive way.
    pub(crate) fn image(&self) -> Vec<u8> {
        let end = self
            .offsets
            .iter()
            .zip(&self.bytes)
            .map(|(at, bytes)| *at + bytes.len() as u64);
        let mut image = vec![0; usize::try_from(end.max().unwrap_or(8)).unwrap()];
        image[..8].copy_from_slice(&HEADER);
        for (offset, bytes) in self.offsets.iter().zip(&self.bytes) {
            let offset = usize::try_from(*offset).unwrap();
            image[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        image
    }

    /// The index as it must be, the naive way.
    pub(crate) fn index(&self) -> BlockIndex {
        let block = usize::try_from(BLOCK).unwrap();
        let digest = |bytes: &[u8]| BlockDigest {
            hash: *blake3::hash(bytes).as_bytes(),
            zero: bytes.iter().all(|byte| *byte == 0),
        };
        let bos = self
            .bytes
            .iter()
            .map(|bytes| bytes.chunks(block).map(digest).collect());
        BlockIndex { bos: bos.collect() }
    }

    pub(crate) fn assert_restored(&self) {
        for (number, (object, bytes)) in self.objects.iter().zip(&self.bytes).enumerate() {
            assert!(
                contents(object.as_fd()) == *bytes,
                "object {number} differs"
            );
        }
    }
}

/// What stands before the contents.
pub(crate) const HEADER: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// A file that holds these bytes.
pub(crate) fn file_of(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

pub(crate) fn options(readers: usize, ring_pages: usize) -> Options {
    let per_gpu = (ring_pages * PAGE) as u64;
    Options {
        readers,
        budget: Budget {
            per_gpu,
            ..Budget::default()
        },
        copy_timeout: Duration::from_secs(20),
        timing: false,
    }
}

/// Runs a test that must end; one that hangs fails instead.
pub(crate) fn watched<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (done_in, done_out) = mpsc::channel();
        let worker = scope.spawn(move || {
            let result = work();
            let _ = done_in.send(());
            result
        });
        if matches!(
            done_out.recv_timeout(Duration::from_secs(120)),
            Err(mpsc::RecvTimeoutError::Timeout)
        ) {
            // The scope would wait for it for ever.
            eprintln!("watchdog: still running after 120 s");
            std::process::abort();
        }
        match worker.join() {
            Ok(result) => result,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    })
}
