//! The last step: the manifest. Before it there is no checkpoint, after it there is one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use rocferry_image::manifest::{
    BLOCK_SIZE, BlockRef, Blocks, CheckpointId, Content, FileEntry, Manifest, PackId, Span,
};

use super::Facts;
use super::engine::{Engine, Job, NamedSource};
use super::slots::{FileSlots, Slot};
use super::source::NewContent;
use crate::backend::{Backend, Existing};
use crate::envelope::ManifestObject;
use crate::lease::Held;
use crate::pack::BlockIndex;
use crate::seal::random;
use crate::store::now_ms;
use crate::{Key, StoreError};

/// Sends what is still missing, and writes the manifest.
pub(super) async fn commit(
    engine: &Arc<Engine>,
    lease: &Held,
    facts: Facts,
) -> Result<Manifest, StoreError> {
    loop {
        let missing = engine
            .slots
            .with(|files| engine.with_stored(|stored| missing(files, stored)));
        if missing.is_empty() {
            break;
        }
        lease.check()?;
        engine.run(missing).await?;
    }
    let id = match facts.id.clone() {
        Some(id) => id,
        None => CheckpointId::new(SystemTime::now(), random()?),
    };
    let files = engine.slots.take();
    let manifest = engine.with_stored(|stored| assemble(files, stored, id, &facts, engine))?;
    lease.check()?;
    let key = Key::Checkpoint(manifest.id.clone());
    let needs: Vec<_> = manifest.packs.iter().copied().map(Key::Pack).collect();
    let keys = Arc::clone(&engine.keys);
    let (manifest, object) = tokio::task::spawn_blocking(move || {
        let object = ManifestObject::encode(&manifest, &keys, facts.signer.as_deref());
        object.map(|object| (manifest, object))
    })
    .await??;
    let backend = engine.store.backend();
    backend.put(&key, object, Existing::Keep, &needs).await?;
    if let Err(lost) = lease.check()
        && !is_whole(engine, &manifest).await
    {
        if let Err(error) = backend.delete(&key).await {
            // The lease is what went wrong first. What stays is told by `verify`.
            tracing::error!(checkpoint = %manifest.id, %error, "Broken checkpoint not removed");
        }
        return Err(lost);
    }
    Ok(manifest)
}

/// Whether all packs of a manifest are there and stay. Asked when the lease did not hold until the manifest
/// named them; if there is no answer, they are not.
async fn is_whole(engine: &Engine, manifest: &Manifest) -> bool {
    // Condemnations first: one goes after its pack, so of a pack that is deleted meanwhile one of the two tells.
    let (Ok(condemned), Ok(packs)) = (engine.store.condemned().await, engine.store.packs().await)
    else {
        return false;
    };
    let stays = |pack| packs.contains_key(pack) && !condemned.contains(pack);
    manifest.packs.iter().all(stays)
}

/// Jobs for the blocks that no pack has: those of packs whose sending was broken off.
fn missing(files: &[FileSlots], stored: &BlockIndex) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let NewContent::Regular(source, _) = &file.entry.content else {
            continue;
        };
        let mut named = None;
        for block in file.blocks() {
            let lost = match block.slot {
                Slot::Zero => false,
                Slot::Block(id) => stored.get(&id).is_none(),
                Slot::Pending => true,
            };
            if lost {
                let source = named.get_or_insert_with(|| {
                    Arc::new(NamedSource {
                        path: file.entry.path.clone(),
                        source: source.clone(),
                    })
                });
                jobs.push(Job {
                    source: Arc::clone(source),
                    open: None,
                    position: block.position,
                    size: block.size,
                    place: Some(block.place(number)),
                });
            }
        }
    }
    jobs
}

fn assemble(
    files: Vec<FileSlots>,
    stored: &BlockIndex,
    id: CheckpointId,
    facts: &Facts,
    engine: &Engine,
) -> Result<Manifest, StoreError> {
    let mut packs = Packs::default();
    let mut entries = Vec::with_capacity(files.len());
    for file in files {
        entries.push(entry(file, stored, &mut packs)?);
    }
    // Parents before what is in them.
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Manifest {
        id,
        created_ms: now_ms(),
        parent: facts.parent.clone(),
        binding: facts.binding.clone(),
        source: facts.source.clone(),
        data_key: engine.keys.id(),
        packs: packs.list,
        files: entries,
    })
}

/// Packs by the order in which they are needed first.
#[derive(Default)]
struct Packs {
    list: Vec<PackId>,
    numbers: HashMap<PackId, u32>,
}

impl Packs {
    fn number(&mut self, pack: PackId) -> u32 {
        *self.numbers.entry(pack).or_insert_with(|| {
            self.list.push(pack);
            // 2^32 packs would be as many blocks, which a manifest cannot hold.
            u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

fn entry(file: FileSlots, stored: &BlockIndex, packs: &mut Packs) -> Result<FileEntry, StoreError> {
    let content = match &file.entry.content {
        NewContent::Directory => Content::Directory,
        NewContent::Symlink(target) => Content::Symlink(target.clone()),
        NewContent::Regular(..) => Content::Regular(spans(&file, stored, packs)?),
    };
    let entry = file.entry;
    Ok(FileEntry {
        path: entry.path,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        modified_ms: entry.modified_ms,
        content,
    })
}

fn spans(
    file: &FileSlots,
    stored: &BlockIndex,
    packs: &mut Packs,
) -> Result<Vec<Span>, StoreError> {
    let mut spans = Vec::with_capacity(file.spans.len());
    let mut slots = file.slots.iter();
    for span in &file.spans {
        let blocks = slots.by_ref().take(span.blocks);
        let blocks = blocks.map(|slot| block(slot, stored, packs));
        spans.push(Span {
            size: span.size,
            label: span.label.clone(),
            blocks: blocks.collect::<Result<Blocks, _>>()?,
        });
    }
    Ok(spans)
}

fn block(slot: &Slot, stored: &BlockIndex, packs: &mut Packs) -> Result<BlockRef, StoreError> {
    let id = match slot {
        Slot::Zero => return Ok(BlockRef::Zero),
        Slot::Block(id) => *id,
        Slot::Pending => return Err(StoreError::Internal("A block was left out".to_owned())),
    };
    let place = stored.get(&id).ok_or(StoreError::Lost { block: id })?;
    Ok(BlockRef::Stored {
        id,
        pack: packs.number(place.pack),
        offset: place.offset,
        stored: place.stored,
        encoding: place.encoding,
    })
}

/// Where blocks of a file are, by its spans.
impl FileSlots {
    fn blocks(&self) -> impl Iterator<Item = PlacedSlot> + '_ {
        let mut start = 0u64;
        let spans = self.spans.iter().flat_map(move |span| {
            let begin = start;
            start = start.saturating_add(span.size);
            (0..span.blocks).map(move |index| {
                let within = (index as u64).saturating_mul(BLOCK_SIZE.into());
                let size = span.size.saturating_sub(within).min(BLOCK_SIZE.into());
                (begin.saturating_add(within), size)
            })
        });
        spans
            .zip(&self.slots)
            .enumerate()
            .map(|(index, ((position, size), slot))| PlacedSlot {
                index,
                position,
                // At most a block.
                size: u32::try_from(size).unwrap_or(BLOCK_SIZE),
                slot: *slot,
            })
    }
}

/// A block of a file that is being stored.
struct PlacedSlot {
    index: usize,
    position: u64,
    size: u32,
    slot: Slot,
}

impl PlacedSlot {
    const fn place(&self, file: usize) -> super::slots::Place {
        super::slots::Place {
            file,
            block: self.index,
        }
    }
}
