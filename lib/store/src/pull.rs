//! Reading: from a manifest and packs to files.
//!
//! ```text
//! manifest → blocks in order → here already? in the cache? ──no──→ runs of a pack → decode, verify → files, cache
//! ```
//!
//! Nothing is written to a file before it is verified. A block that is at several places is fetched once, and
//! blocks that lie together in a pack are fetched together. Zero blocks become holes.
//!
//! **Page cache.** Large blocks go to the disk directly unless [`PullOptions::page_cache`] says otherwise. While
//! a disk writes, other threads decode.
//!
//! **Resume.** A copy that was broken off is marked by a file of its own ([`MARKER`]). Pulling into it again
//! keeps every block that is there, by its content: nothing else says what was written.

use std::fmt;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use rocferry_image::manifest::{FileEntry, Manifest};
use tokio::sync::{RwLock, mpsc};

use crate::cache::Cache;
use crate::lease::Held;
use crate::progress::Progress;
use crate::{Store, StoreError};

mod blocks;
mod job;
mod plan;
mod reader;
mod tree;

pub use reader::FileReader;
pub use tree::MARKER;

use job::Job;
use plan::{Plan, runs};

/// Bytes that are fetched at once, at most, unless one block is larger.
const RUN: u64 = 8 << 20;
/// Blocks that are looked for on this machine at once.
const WINDOW: usize = 64;

/// How to read.
#[derive(Clone)]
pub struct PullOptions {
    /// Requests at a time.
    pub parallel: usize,
    /// Threads that look for blocks on this machine, and as many that decode.
    pub workers: usize,
    /// Where blocks of this machine's checkpoints are kept.
    pub cache: Option<Arc<Cache>>,
    /// In which order files are wanted.
    pub order: Arc<dyn Order>,
    /// Gets the path of each file when it is complete.
    pub complete: Option<mpsc::UnboundedSender<String>>,
    /// Whether all is to be on the disk when the copy is complete. Without it a copy that was complete before
    /// the machine lost power may not be afterwards.
    pub durable: bool,
    /// Whether all that is written is to be in the page cache afterwards, for somebody who reads it soon and
    /// has the memory. Without it large blocks go to the disk directly, where the file system can: a checkpoint
    /// is often larger than the memory that a node can spare, and nobody else's files have to make room.
    pub page_cache: bool,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            parallel: 6,
            workers: std::thread::available_parallelism().map_or(1, NonZero::get),
            cache: None,
            order: Arc::new(AsListed),
            complete: None,
            durable: false,
            page_cache: false,
        }
    }
}

impl fmt::Debug for PullOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullOptions")
            .field("parallel", &self.parallel)
            .field("cache", &self.cache)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

/// Says which files are wanted first.
pub trait Order: Send + Sync {
    /// Files with a smaller number come first, those with the same one as the manifest lists them.
    fn rank(&self, file: &FileEntry) -> u32;
}

/// As the manifest lists them.
#[derive(Clone, Copy, Debug)]
pub struct AsListed;

impl Order for AsListed {
    fn rank(&self, _file: &FileEntry) -> u32 {
        0
    }
}

impl Store {
    /// Writes the files of a checkpoint to a directory, which is new, empty, or holds a copy of the same
    /// checkpoint that was broken off.
    ///
    /// # Errors
    /// The first one of all. What was written stays, and pulling again goes on from there.
    pub async fn pull(
        &self,
        manifest: Arc<Manifest>,
        to: &Path,
        options: &PullOptions,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        let lease = Held::reading(self, &manifest).await?;
        let done = self.pull_held(manifest, to, options, progress).await;
        lease.release().await;
        done
    }

    async fn pull_held(
        &self,
        manifest: Arc<Manifest>,
        to: &Path,
        options: &PullOptions,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        let keys = self.keys(manifest.data_key)?;
        let busy = Busy::default();
        let done = async {
            let (root, for_tree) = (to.to_owned(), Arc::clone(&manifest));
            let tree = busy.run(move || tree::Tree::prepare(&root, &for_tree));
            let tree = tree.await?;
            let plan = Plan::new(&manifest, &*options.order);
            let job = Arc::new(Job::new(manifest, tree, keys, options, progress.clone()));
            let working = Arc::clone(&job);
            busy.run(move || working.begin()).await?;
            self.transfer(&busy, &job, plan, options).await?;
            let durable = options.durable;
            busy.run(move || job.finish(durable)).await
        };
        let done = done.await;
        // After an error threads may still write. Whoever tries again must not meet them.
        busy.wait().await;
        done
    }

    async fn transfer(
        &self,
        busy: &Busy,
        job: &Arc<Job>,
        plan: Plan,
        options: &PullOptions,
    ) -> Result<(), StoreError> {
        stream::iter(plan.windows(WINDOW))
            .map(|window| {
                let job = Arc::clone(job);
                busy.run(move || job.local(window))
            })
            .buffered(options.workers.max(1))
            .map_ok(|missing| stream::iter(runs(missing, RUN).into_iter().map(Ok)))
            .try_flatten()
            .map_ok(|run| async move {
                let bytes = job.fetch(self, &run).await?;
                let job = Arc::clone(job);
                busy.run(move || job.write(&run, &bytes)).await
            })
            .try_buffer_unordered(options.parallel.max(1))
            .try_collect()
            .await
    }
}

/// Work on threads that may wait.
#[derive(Debug, Default)]
struct Busy(Arc<RwLock<()>>);

impl Busy {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let running = Arc::clone(&self.0).read_owned().await;
        let work = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(running);
            done
        });
        work.await?
    }

    /// Waits until no thread works any more.
    async fn wait(&self) {
        drop(self.0.write().await);
    }
}
