//! Writing: from files to packs and a manifest.
//!
//! ```text
//! entries → producer → jobs → workers (read, zero?, hash, known?, compress, seal) → packers → packs, indexes
//!                               └── names of blocks ──→ slots ─────────────────────→ manifest
//! ```
//!
//! Everything between two stages is bounded, so memory is whatever the size of a checkpoint. Files may still
//! be written while they are read, see [`Feed`].
//!
//! **Crash.** What an upload leaves behind are whole packs that no manifest names. The next upload finds
//! their blocks like any others and sends none of them again; until then a lease, and later the grace of
//! [garbage collection](crate::gc), keeps them.
//!
//! **Broken off.** A pack whose sending fails for now is not resumed: its blocks are read and sent again, in
//! another pack. The first error that is for good ends everything.

use std::num::NonZero;
use std::sync::Arc;

use rocferry_image::manifest::{Binding, CheckpointId, Manifest, Source as About};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::envelope::{LeaseKind, Signer};
use crate::lease::Held;
use crate::pack::{Compression, TARGET_SIZE};
use crate::progress::{Count, Progress};
use crate::pull::MARKER;
use crate::{Store, StoreError};

mod commit;
mod directory;
mod engine;
mod feed;
mod follow;
mod packer;
mod producer;
mod slots;
mod source;
mod state;
mod worker;

pub use directory::{Cuts, NoCuts, tree};
use engine::Engine;
pub use feed::{Cut, Feed, LateCut, Readable};
pub use follow::Follower;
pub use source::{NewContent, NewEntry, Source};

/// How to store.
#[derive(Clone, Debug)]
pub struct PushOptions {
    /// How hard to compress.
    pub compression: Compression,
    /// Size at which a pack is ended, in bytes.
    pub pack_size: u64,
    /// Packs that are sent at a time.
    pub packers: usize,
    /// Threads that hash, compress and seal.
    pub workers: usize,
}

impl Default for PushOptions {
    fn default() -> Self {
        Self {
            compression: Compression::default(),
            pack_size: TARGET_SIZE,
            packers: 2,
            workers: std::thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

/// What a manifest says besides its files.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name of the checkpoint; `None`: a new one.
    pub id: Option<CheckpointId>,
    /// The checkpoint before it.
    pub parent: Option<CheckpointId>,
    /// Whom it may be restored for.
    pub binding: Binding,
    /// What was checkpointed.
    pub source: About,
    /// Who signs it.
    pub signer: Option<Arc<Signer>>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            id: None,
            parent: None,
            binding: Binding::Free,
            source: About::default(),
            signer: None,
        }
    }
}

/// A checkpoint that is being stored. Dropping it gives it up.
#[derive(Debug)]
pub struct Upload {
    engine: Arc<Engine>,
    stop: Stop,
    lease: Option<Held>,
    /// Entries for the producer.
    entries: mpsc::UnboundedSender<producer::Item>,
    tasks: JoinSet<()>,
    /// Directories that must stay as they are until the end.
    trees: Vec<state::TreeState>,
}

impl Store {
    /// Begins to store a checkpoint.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn push(&self, options: PushOptions) -> Result<Upload, StoreError> {
        // First the lease: what is looked at from now on stays.
        let lease = Held::take(self, LeaseKind::Upload, Vec::new(), Vec::new()).await?;
        let catalog = self.catalog().await?;
        for (pack, error) in &catalog.unreadable {
            tracing::warn!(%pack, %error, "Pack not used: its blocks are sent again");
        }
        let engine = Arc::new(Engine::new(self, options, catalog.blocks));
        let (entries, items) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let jobs = engine.spawn(&mut tasks);
        let producing = Arc::clone(&engine);
        tasks.spawn(async move {
            producing.note(producer::produce(&producing, items, jobs).await);
        });
        Ok(Upload {
            stop: Stop(Arc::clone(&engine)),
            engine,
            lease: Some(lease),
            entries,
            tasks,
            trees: Vec::new(),
        })
    }
}

impl Upload {
    /// Adds a file, directory or link. Its directory may be added before or after it.
    ///
    /// # Errors
    /// Any error that ended the upload.
    pub fn add(&mut self, entry: NewEntry) -> Result<(), StoreError> {
        self.check()?;
        if entry.path == MARKER {
            let reason = "copies that are not complete are marked by that name".to_owned();
            let path = entry.path;
            return Err(StoreError::Unfit { path, reason });
        }
        // All that is known to come counts at once, so that it can be said how long it takes.
        let counted = match &entry.content {
            NewContent::Regular(_, readable) => readable.size(),
            NewContent::Directory | NewContent::Symlink(_) => Some(0),
        };
        let expected = counted.unwrap_or(0);
        self.engine.progress.add(Count::Expected, expected);
        let counted = counted.is_some();
        // Fails only when the producer ended early; why shows at the end.
        let _ = self.entries.send(producer::Item::Entry { entry, counted });
        Ok(())
    }

    /// Sends a part of a file that may still change, so that less is left to do when it is added. Its blocks
    /// are aligned to the start of the part.
    pub fn send_early(&mut self, source: Source, range: std::ops::Range<u64>) {
        let _ = self.entries.send(producer::Item::Early(source, range));
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.engine.progress
    }

    /// Fails if something has failed already.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&mut self) -> Result<(), StoreError> {
        while let Some(ended) = self.tasks.try_join_next() {
            self.engine.note(ended);
        }
        match self.engine.failed() {
            true => Err(self.engine.take_error()),
            false => Ok(()),
        }
    }

    /// Waits until everything is stored, and writes the manifest. The checkpoint exists when this returns.
    ///
    /// # Errors
    /// The first one of all. Nothing is listed then; storing the same again sends only what is missing.
    pub async fn finish(self, facts: Facts) -> Result<Manifest, StoreError> {
        let Self {
            engine,
            mut lease,
            entries,
            mut tasks,
            trees,
            stop: _stop,
        } = self;
        drop(entries);
        let done = async {
            join(&engine, &mut tasks).await?;
            tokio::task::spawn_blocking(move || trees.iter().try_for_each(state::TreeState::check))
                .await??;
            let lease = lease.as_ref().ok_or(StoreError::Cancelled)?;
            commit::commit(&engine, lease, facts).await
        };
        let done = done.await;
        if let Some(lease) = lease.take() {
            lease.release().await;
        }
        done
    }

    /// Gives it up. Packs that are complete stay for the next try, as long as garbage collection lets them.
    pub async fn abort(mut self) {
        self.engine.cancel();
        while self.tasks.join_next().await.is_some() {}
        if let Some(lease) = self.lease.take() {
            lease.release().await;
        }
    }
}

/// Stops the work when dropped: threads do not end by themselves.
#[derive(Debug)]
struct Stop(Arc<Engine>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Waits for all tasks; the first error ends them all.
async fn join(engine: &Engine, tasks: &mut JoinSet<()>) -> Result<(), StoreError> {
    while let Some(ended) = tasks.join_next().await {
        engine.note(ended);
    }
    match engine.failed() {
        true => Err(engine.take_error()),
        false => Ok(()),
    }
}
