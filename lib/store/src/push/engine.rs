//! What all parts of an upload share.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rocferry_image::manifest::BlockId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::slots::{Place, Slots};
use super::source::Source;
use super::{PushOptions, join, packer, worker};
use crate::pack::{BlockIndex, PackIndex};
use crate::progress::{Count, Progress};
use crate::seal::Keys;
use crate::{Store, StoreError};

/// Jobs that wait for a worker.
const JOBS: usize = 32;
/// Encoded blocks that wait for a packer: 16 MiB.
const ENCODED: usize = 4;

/// A block to be stored.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The file that it is in.
    pub(super) source: Arc<NamedSource>,
    /// That file and the byte in it where this one begins, if it is open.
    pub(super) open: Option<(Arc<std::fs::File>, u64)>,
    /// First byte in the file.
    pub(super) position: u64,
    /// Bytes.
    pub(super) size: u32,
    /// Where its name goes; `None`: the file may still change, and will be read again.
    pub(super) place: Option<Place>,
}

/// A file to read from, and what to call it in errors.
#[derive(Debug)]
pub(super) struct NamedSource {
    pub(super) path: String,
    pub(super) source: Source,
}

/// Shared by producer, workers and packers.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) store: Store,
    pub(super) keys: Arc<Keys>,
    pub(super) options: PushOptions,
    pub(super) progress: Progress,
    pub(super) slots: Slots,
    known: Mutex<Known>,
    /// Since when no pack could be sent.
    failing: Mutex<Option<Instant>>,
    error: Mutex<Option<StoreError>>,
    failed: AtomicBool,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
struct Known {
    /// Blocks of packs that are whole.
    stored: BlockIndex,
    /// Blocks that are on their way.
    pending: HashSet<BlockId>,
}

impl Engine {
    pub(super) fn new(store: &Store, options: PushOptions, stored: BlockIndex) -> Self {
        let known = Known {
            stored,
            pending: HashSet::new(),
        };
        Self {
            store: store.clone(),
            keys: Arc::clone(store.keyring().current()),
            options,
            progress: Progress::new(),
            slots: Slots::default(),
            known: Mutex::new(known),
            failing: Mutex::default(),
            error: Mutex::default(),
            failed: AtomicBool::new(false),
            stop: watch::channel(false).0,
        }
    }

    /// Starts workers and packers. They end when the sender of jobs is dropped.
    pub(super) fn spawn(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> mpsc::Sender<Job> {
        let (jobs, waiting) = mpsc::channel(JOBS);
        let (encoded, packing) = mpsc::channel(ENCODED);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..self.options.workers.max(1) {
            let (engine, waiting, encoded) =
                (Arc::clone(self), Arc::clone(&waiting), encoded.clone());
            tasks.spawn_blocking(move || {
                engine.note(worker::work(&engine, &waiting, &encoded));
            });
        }
        let packing = Arc::new(tokio::sync::Mutex::new(packing));
        for _ in 0..self.options.packers.max(1) {
            let (engine, packing) = (Arc::clone(self), Arc::clone(&packing));
            tasks.spawn(async move { engine.note(packer::pack(&engine, &packing).await) });
        }
        jobs
    }

    /// Does these jobs.
    pub(super) async fn run(self: &Arc<Self>, jobs: Vec<Job>) -> Result<(), StoreError> {
        let mut tasks = JoinSet::new();
        let sender = self.spawn(&mut tasks);
        for job in jobs {
            // Fails only when all workers ended early.
            if sender.send(job).await.is_err() {
                break;
            }
        }
        drop(sender);
        join(self, &mut tasks).await
    }

    /// Whether the block has to be sent. It is then the caller's.
    pub(super) fn claim(&self, id: BlockId) -> bool {
        let mut known = locked(&self.known);
        known.stored.get(&id).is_none() && known.pending.insert(id)
    }

    /// A pack is whole.
    pub(super) fn stored(&self, pack: &PackIndex) {
        let mut known = locked(&self.known);
        known.stored.add(pack);
        for entry in &pack.entries {
            known.pending.remove(&entry.id);
        }
        drop(known);
        *locked(&self.failing) = None;
        self.progress.add(Count::Packs, 1);
    }

    /// Blocks are lost for now. Those that a file needs are sent again when all else is done.
    pub(super) fn lost(&self, blocks: impl IntoIterator<Item = BlockId>) {
        let mut known = locked(&self.known);
        for id in blocks {
            known.pending.remove(&id);
        }
    }

    /// How long nothing could be sent, this failure included.
    pub(super) fn failing_for(&self) -> std::time::Duration {
        let now = Instant::now();
        now - *locked(&self.failing).get_or_insert(now)
    }

    /// What is stored, to look blocks up when everything is.
    pub(super) fn with_stored<T>(&self, work: impl FnOnce(&BlockIndex) -> T) -> T {
        work(&locked(&self.known).stored)
    }

    /// Whether there is no more use in working.
    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until there is no more use in working.
    pub(super) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as this.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// Stops everything.
    pub(super) fn cancel(&self) {
        self.stop.send_replace(true);
    }

    /// Takes note of what a task came to. The first error wins and stops the others.
    pub(super) fn note<T, E: Into<StoreError>>(&self, ended: Result<T, E>) {
        if let Err(error) = ended {
            self.fail(error.into());
        }
    }

    /// Stops everything for this reason, unless there was another one before.
    pub(super) fn fail(&self, error: StoreError) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            *locked(&self.error) = Some(error);
        }
        self.cancel();
    }

    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The first error, once.
    pub(super) fn take_error(&self) -> StoreError {
        locked(&self.error).take().unwrap_or(StoreError::Cancelled)
    }
}

impl NamedSource {
    /// Opens the file.
    pub(super) fn open(&self) -> Result<(Arc<std::fs::File>, u64), StoreError> {
        let path = match &self.source {
            Source::Path(path) => path.clone(),
            Source::Open(..) => PathBuf::from(&self.path),
        };
        self.source
            .open()
            .map_err(StoreError::file("Opening", path))
    }
}

/// Whoever panicked left nothing half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
