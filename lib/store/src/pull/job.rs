//! A running download.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rocferry_image::manifest::{BlockRef, Content, Manifest};
use rustix::fs::SeekFrom;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use super::PullOptions;
use super::blocks::Decoders;
use super::plan::{Run, Target, Wanted};
use super::tree::Tree;
use crate::aligned::is_aligned;
use crate::backend::{Backend, BackendError};
use crate::cache::Cache;
use crate::pack::is_zero;
use crate::progress::{Count, Progress};
use crate::seal::Keys;
use crate::{Key, Store, StoreError};

/// A smaller block goes through the page cache: for it the way past is the longer one.
const DIRECT: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Job {
    manifest: Arc<Manifest>,
    tree: Tree,
    keys: Arc<Keys>,
    cache: Option<Arc<Cache>>,
    complete: Option<mpsc::UnboundedSender<String>>,
    progress: Progress,
    decoders: Decoders,
    page_cache: bool,
    /// As many as threads may decode at a time.
    turns: Semaphore,
    runtime: Handle,
    /// Blocks that each file still wants.
    left: Vec<AtomicU64>,
}

impl Job {
    pub(super) fn new(
        manifest: Arc<Manifest>,
        tree: Tree,
        keys: Arc<Keys>,
        options: &PullOptions,
        progress: Progress,
    ) -> Self {
        let left = manifest.files.iter().map(|file| {
            let stored = file.spans().iter().map(|span| span.blocks.stored().len());
            AtomicU64::new(stored.sum::<usize>() as u64)
        });
        Self {
            left: left.collect(),
            manifest,
            tree,
            keys,
            cache: options.cache.clone(),
            complete: options.complete.clone(),
            progress,
            decoders: Decoders::default(),
            page_cache: options.page_cache,
            turns: Semaphore::new(options.workers.max(1)),
            runtime: Handle::current(),
        }
    }

    /// Makes all files with their holes. Those without blocks are complete.
    pub(super) fn begin(&self) -> Result<(), StoreError> {
        self.progress
            .add(Count::Expected, self.manifest.plain_size());
        for (index, entry) in self.manifest.files.iter().enumerate() {
            if !matches!(entry.content, Content::Regular(_)) {
                continue;
            }
            let file = self.tree.file(entry)?;
            for placed in entry.blocks() {
                if *placed.block == BlockRef::Zero {
                    if self.tree.is_resumed() {
                        self.clear(index, &file, placed.position, placed.size)?;
                    }
                    self.progress.add(Count::Zero, placed.size.into());
                    self.progress.add(Count::Done, placed.size.into());
                }
            }
            drop(file);
            if self.left[index].load(Ordering::Acquire) == 0 {
                self.completed(index);
            }
        }
        Ok(())
    }

    /// Makes sure that a part of a file that was there before is zero.
    fn clear(&self, index: usize, file: &File, position: u64, size: u32) -> Result<(), StoreError> {
        let end = position.saturating_add(size.into());
        match rustix::fs::seek(file, SeekFrom::Data(position)) {
            Ok(data) if data >= end => return Ok(()),
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            // Where the file system does not say, it is read.
            Ok(_) | Err(_) => {}
        }
        let mut bytes = vec![0; size as usize];
        let read = file.read_exact_at(&mut bytes, position);
        read.map_err(self.failed("Reading", index))?;
        if !is_zero(&bytes) {
            bytes.fill(0);
            let written = file.write_all_at(&bytes, position);
            written.map_err(self.failed("Writing", index))?;
        }
        Ok(())
    }

    /// Takes what is on this machine already. Returns the blocks that are not, or not everywhere.
    pub(super) fn local(&self, window: Vec<Wanted>) -> Result<Vec<Wanted>, StoreError> {
        if self.cache.is_none() && !self.tree.is_resumed() {
            return Ok(window);
        }
        let mut missing = Vec::new();
        for mut block in window {
            if self.tree.is_resumed() {
                self.keep(&mut block)?;
            }
            if block.targets.is_empty() || self.take_cached(&block)? {
                continue;
            }
            missing.push(block);
        }
        Ok(missing)
    }

    /// Leaves out the places that have the block already.
    fn keep(&self, block: &mut Wanted) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let mut missing = Vec::new();
        for target in std::mem::take(&mut block.targets) {
            let entry = &self.manifest.files[target.file];
            let file = self.tree.file(entry)?;
            bytes.resize(block.size as usize, 0);
            match file.read_exact_at(&mut bytes, target.position) {
                Ok(()) if self.keys.block_id(&bytes) == block.id => {
                    self.progress.add(Count::Known, block.size.into());
                    self.placed(target, block.size);
                }
                Ok(()) => missing.push(target),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => missing.push(target),
                Err(error) => return Err(self.failed("Reading", target.file)(error)),
            }
        }
        block.targets = missing;
        Ok(())
    }

    fn take_cached(&self, block: &Wanted) -> Result<bool, StoreError> {
        let Some(cache) = &self.cache else {
            return Ok(false);
        };
        let Some(stored) = cache.get(block.id, block.encoding) else {
            return Ok(false);
        };
        let placed = self.decode(block, &stored);
        if let Err(StoreError::Pack(error)) = placed {
            tracing::warn!(block = %block.id, %error, "Block in the cache not used");
            cache.remove(block.id, block.encoding);
            return Ok(false);
        }
        placed?;
        let size = u64::from(block.size).saturating_mul(block.targets.len() as u64);
        self.progress.add(Count::Known, size);
        Ok(true)
    }

    /// The bytes of a run.
    pub(super) async fn fetch(&self, store: &Store, run: &Run) -> Result<Bytes, StoreError> {
        let length = run.range.end - run.range.start;
        let (key, range) = (Key::Pack(run.pack), Some(run.range.clone()));
        match store.backend().get(&key, range, length).await {
            Ok(bytes) => {
                self.progress.add(Count::Moved, bytes.len() as u64);
                Ok(bytes)
            }
            Err(BackendError::NotFound { .. }) => Err(StoreError::NoPack {
                checkpoint: self.manifest.id.clone(),
                pack: run.pack,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Verifies the blocks of a run and writes them.
    pub(super) fn write(&self, run: &Run, bytes: &[u8]) -> Result<(), StoreError> {
        for block in &run.blocks {
            let start = usize::try_from(block.offset - run.range.start).unwrap_or(usize::MAX);
            let end = start.saturating_add(block.stored as usize);
            // Shorter than asked for is damaged as well.
            let stored = bytes.get(start..end).unwrap_or_default();
            self.decode(block, stored)?;
            if let Some(cache) = &self.cache {
                cache.put(block.id, block.encoding, stored);
            }
        }
        Ok(())
    }

    /// Verifies a block and writes it to its places.
    fn decode(&self, block: &Wanted, stored: &[u8]) -> Result<(), StoreError> {
        self.decoders.with(|decoder, copy| {
            // More threads than processors would take turns on them, each with blocks that no cache holds any
            // more. While a disk writes, another one has its turn.
            let turn = self.runtime.block_on(self.turns.acquire());
            let plain = decoder.decode(&self.keys, block.id, block.size, block.encoding, stored)?;
            let direct = !self.page_cache && plain.len() >= DIRECT;
            let plain = match direct && !is_aligned(plain) {
                true => copy.copy(plain),
                false => plain,
            };
            if direct {
                drop(turn);
            }
            for target in &block.targets {
                let entry = &self.manifest.files[target.file];
                let written = self.tree.write(entry, plain, target.position, direct);
                written?;
                self.placed(*target, block.size);
            }
            Ok(())
        })
    }

    /// A block is where it belongs.
    fn placed(&self, target: Target, size: u32) {
        self.progress.add(Count::Done, size.into());
        if self.left[target.file].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.completed(target.file);
        }
    }

    /// A file has all its blocks.
    fn completed(&self, index: usize) {
        self.progress.add(Count::Files, 1);
        if let Some(complete) = &self.complete {
            // If nobody listens any more, that is up to them.
            let _ = complete.send(self.manifest.files[index].path.clone());
        }
    }

    /// Everything is there.
    pub(super) fn finish(&self, durable: bool) -> Result<(), StoreError> {
        self.tree.finish(&self.manifest, durable)
    }

    fn failed(&self, operation: &'static str, file: usize) -> impl FnOnce(io::Error) -> StoreError {
        StoreError::file(operation, &self.manifest.files[file].path)
    }
}
