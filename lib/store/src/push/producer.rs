//! From entries to jobs.

use std::ops::Range;
use std::sync::Arc;

use rocferry_image::manifest::BLOCK_SIZE;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::engine::{Engine, Job, NamedSource};
use super::feed::{Readable, Step, Walk};
use super::source::{NewContent, NewEntry, Source};
use crate::StoreError;
use crate::progress::Count;

/// What the producer is given.
#[derive(Debug)]
pub(super) enum Item {
    /// A file, directory or link.
    Entry {
        /// What it is.
        entry: NewEntry,
        /// Whether its bytes are counted as expected already.
        counted: bool,
    },
    /// A part of a file that will be added later.
    Early(Source, Range<u64>),
}

/// Makes jobs of entries: of those that are complete one after the other, since they are best read back in
/// that order; of those that grow side by side.
pub(super) async fn produce(
    engine: &Arc<Engine>,
    mut items: mpsc::UnboundedReceiver<Item>,
    jobs: mpsc::Sender<Job>,
) -> Result<(), StoreError> {
    let mut growing = JoinSet::new();
    let work = async {
        while let Some(item) = items.recv().await {
            match item {
                Item::Early(source, range) => early(source, range, &jobs).await,
                Item::Entry { entry, counted } => {
                    let content = entry.content.clone();
                    let path = entry.path.clone();
                    let file = engine.slots.add(entry);
                    match content {
                        NewContent::Directory | NewContent::Symlink(_) => {
                            engine.progress.add(Count::Files, 1);
                        }
                        NewContent::Regular(source, readable) => {
                            let source = Arc::new(NamedSource { path, source });
                            let (engine, jobs) = (Arc::clone(engine), jobs.clone());
                            let work = file_jobs(engine, (file, counted), source, readable, jobs);
                            match counted {
                                true => work.await?,
                                false => drop(growing.spawn(work)),
                            }
                        }
                    }
                }
            }
            while let Some(ended) = growing.try_join_next() {
                ended.map_err(StoreError::from).flatten()?;
            }
        }
        while let Some(ended) = growing.join_next().await {
            ended.map_err(StoreError::from).flatten()?;
        }
        Ok(())
    };
    tokio::select! {
        done = work => done,
        () = engine.stopped() => Ok(()),
    }
}

async fn file_jobs(
    engine: Arc<Engine>,
    (file, counted): (usize, bool),
    source: Arc<NamedSource>,
    readable: Readable,
    jobs: mpsc::Sender<Job>,
) -> Result<(), StoreError> {
    let mut walk = Walk::new(readable, BLOCK_SIZE);
    let mut open = None;
    loop {
        let Step::Block {
            position,
            size,
            span,
        } = walk.next(&source.path).await?
        else {
            engine.progress.add(Count::Files, 1);
            return Ok(());
        };
        let opened = match &open {
            Some(opened) => Clone::clone(opened),
            None => {
                let source = Arc::clone(&source);
                let opened = tokio::task::spawn_blocking(move || source.open()).await??;
                open.insert(opened).clone()
            }
        };
        if !counted {
            engine.progress.add(Count::Expected, size.into());
        }
        let job = Job {
            source: Arc::clone(&source),
            open: Some(opened),
            position,
            size,
            place: Some(engine.slots.block(file, size, span)),
        };
        if jobs.send(job).await.is_err() {
            // The workers ended early, and say why.
            return Ok(());
        }
    }
}

/// Whole blocks alone: the rest comes when the file is complete. That it cannot be read now does not matter.
async fn early(source: Source, range: Range<u64>, jobs: &mpsc::Sender<Job>) {
    let source = Arc::new(NamedSource {
        path: String::new(),
        source,
    });
    let starts = (range.start..range.end).step_by(BLOCK_SIZE as usize);
    for position in starts.filter(|start| start.saturating_add(BLOCK_SIZE.into()) <= range.end) {
        let job = Job {
            source: Arc::clone(&source),
            open: None,
            position,
            size: BLOCK_SIZE,
            place: None,
        };
        if jobs.send(job).await.is_err() {
            return;
        }
    }
}
