//! What differs between two checkpoints.
//!
//! Blocks are compared by their names, which are keyed: equal names are equal contents, and of checkpoints
//! that are sealed by different data keys nothing can be said. A part of a file that a cut point has a label
//! for is found again by its file and its label, wherever it lies in the file.

use std::collections::{BTreeMap, HashMap, HashSet};

use rocferry_image::manifest::{
    BlockId, BlockRef, CheckpointId, Content, DataKeyId, FileEntry, Manifest, Span,
};
use serde::Serialize;
use thiserror::Error;

use crate::serial::{data_key_name, display};

/// Checkpoints that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiffError {
    /// Their blocks have names of different keys.
    #[error("{old} is sealed by {}, {new} by {}: their blocks cannot be compared",
        data_key_name(*old_key), data_key_name(*new_key))]
    DataKeys {
        /// The one.
        old: CheckpointId,
        /// Its data key.
        old_key: Option<DataKeyId>,
        /// The other.
        new: CheckpointId,
        /// Its data key.
        new_key: Option<DataKeyId>,
    },
}

/// What differs. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// The one.
    #[serde(serialize_with = "display")]
    pub old: CheckpointId,
    /// The other.
    #[serde(serialize_with = "display")]
    pub new: CheckpointId,
    /// Files that are not the same, by path.
    pub files: Vec<FileChange>,
    /// Parts with a label that are not the same, by file and label.
    pub spans: Vec<SpanChange>,
    /// Files, directories and links that are the same.
    pub unchanged_files: u64,
    /// Parts with a label that are the same.
    pub unchanged_spans: u64,
    /// All blocks of the other one.
    pub blocks: BlockCounts,
}

/// How something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Only the other one has it.
    Added,
    /// Only the one has it.
    Removed,
    /// Its content, or what it is.
    Changed,
    /// Not the content, but mode, owner, group or time; of a part: only where it is.
    Metadata,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its path.
    pub path: String,
    /// How.
    pub change: Change,
    /// Its size in the one; 0 if that does not have it.
    pub old_size: u64,
    /// Its size in the other.
    pub new_size: u64,
    /// Its blocks in the other.
    pub blocks: BlockCounts,
}

/// Blocks, counted as often as they occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockCounts {
    /// All zeros.
    pub zero: u64,
    /// That the one has as well, anywhere.
    pub shared: u64,
    /// That it does not have.
    pub new: u64,
    /// Bytes of those before compression.
    pub new_bytes: u64,
}

/// A part of a file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpanChange {
    /// The file.
    pub path: String,
    /// What it is to whoever wrote it.
    pub label: String,
    /// How.
    pub change: Change,
    /// Its size in the one; 0 if that does not have it.
    pub old_size: u64,
    /// Its size in the other.
    pub new_size: u64,
    /// Blocks that are not the same at the same place of the part.
    pub changed_blocks: u64,
    /// Bytes of those, in whichever has more.
    pub changed_bytes: u64,
}

/// What differs between `old` and `new`.
///
/// # Errors
/// [`DiffError`].
pub fn diff(old: &Manifest, new: &Manifest) -> Result<Diff, DiffError> {
    if old.data_key != new.data_key {
        return Err(DiffError::DataKeys {
            old: old.id.clone(),
            old_key: old.data_key,
            new: new.id.clone(),
            new_key: new.data_key,
        });
    }
    let known: HashSet<_> = old.files.iter().flat_map(ids).collect();
    let mut diff = Diff {
        old: old.id.clone(),
        new: new.id.clone(),
        files: Vec::new(),
        spans: Vec::new(),
        unchanged_files: 0,
        unchanged_spans: 0,
        blocks: BlockCounts::default(),
    };
    for (path, (before, after)) in pairs(by_path(old), by_path(new)) {
        let blocks = after.map(|file| count(file, &known)).unwrap_or_default();
        diff.blocks.add(blocks);
        let change = compare(before, after, same_content, same_metadata);
        match change {
            None => diff.unchanged_files += 1,
            Some(change) => diff.files.push(FileChange {
                path: path.to_owned(),
                change,
                old_size: before.map_or(0, FileEntry::size),
                new_size: after.map_or(0, FileEntry::size),
                blocks,
            }),
        }
        let spans = pairs(labelled(before), labelled(after));
        for ((label, _), (before, after)) in spans {
            diff.span(path, label, before, after);
        }
    }
    Ok(diff)
}

impl Diff {
    fn span(&mut self, path: &str, label: &str, before: Option<Placed>, after: Option<Placed>) {
        let same = |one: &Placed, other: &Placed| same_span(one.span, other.span);
        let place = |one: &Placed, other: &Placed| one.position == other.position;
        let Some(change) = compare(before.as_ref(), after.as_ref(), same, place) else {
            self.unchanged_spans += 1;
            return;
        };
        let (before, after) = (before.map(|old| old.span), after.map(|new| new.span));
        let (changed_blocks, changed_bytes) = changed(before, after);
        self.spans.push(SpanChange {
            path: path.to_owned(),
            label: label.to_owned(),
            change,
            old_size: before.map_or(0, |span| span.size),
            new_size: after.map_or(0, |span| span.size),
            changed_blocks,
            changed_bytes,
        });
    }
}

impl BlockCounts {
    const fn add(&mut self, other: Self) {
        self.zero += other.zero;
        self.shared += other.shared;
        self.new += other.new;
        self.new_bytes += other.new_bytes;
    }
}

/// A span and its first byte in its file.
#[derive(Clone, Copy)]
struct Placed<'a> {
    position: u64,
    span: &'a Span,
}

fn by_path(manifest: &Manifest) -> BTreeMap<&str, &FileEntry> {
    let files = manifest.files.iter();
    files.map(|file| (file.path.as_str(), file)).collect()
}

/// The spans with a label; of several with the same one, each with its number.
fn labelled(file: Option<&FileEntry>) -> BTreeMap<(&str, usize), Placed<'_>> {
    let mut position = 0u64;
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut spans = BTreeMap::new();
    for span in file.map(FileEntry::spans).unwrap_or_default() {
        if let Some(label) = span.label.as_deref() {
            let number = numbers.entry(label).or_default();
            spans.insert((label, *number), Placed { position, span });
            *number += 1;
        }
        position = position.saturating_add(span.size);
    }
    spans
}

/// What either has, in order.
fn pairs<K: Ord + Copy, V: Copy>(
    old: BTreeMap<K, V>,
    new: BTreeMap<K, V>,
) -> BTreeMap<K, (Option<V>, Option<V>)> {
    let mut pairs: BTreeMap<_, _> = old
        .into_iter()
        .map(|(key, value)| (key, (Some(value), None)))
        .collect();
    for (key, value) in new {
        pairs.entry(key).or_insert((None, None)).1 = Some(value);
    }
    pairs
}

/// How something differs, if it does.
fn compare<T>(
    old: Option<&T>,
    new: Option<&T>,
    same_content: impl Fn(&T, &T) -> bool,
    same_rest: impl Fn(&T, &T) -> bool,
) -> Option<Change> {
    match (old, new) {
        (None, None) => None,
        (None, Some(_)) => Some(Change::Added),
        (Some(_), None) => Some(Change::Removed),
        (Some(old), Some(new)) if !same_content(old, new) => Some(Change::Changed),
        (Some(old), Some(new)) if !same_rest(old, new) => Some(Change::Metadata),
        (Some(_), Some(_)) => None,
    }
}

/// Where cut points are is not content, but blocks of other cuts have other names: then nothing is known to be
/// the same.
fn same_content(old: &FileEntry, new: &FileEntry) -> bool {
    match (&old.content, &new.content) {
        (Content::Directory, Content::Directory) => true,
        (Content::Symlink(old), Content::Symlink(new)) => old == new,
        (Content::Regular(old), Content::Regular(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same_span(old, new))
        }
        _ => false,
    }
}

fn same_metadata(old: &FileEntry, new: &FileEntry) -> bool {
    let metadata = |file: &FileEntry| (file.mode, file.uid, file.gid, file.modified_ms);
    metadata(old) == metadata(new)
}

fn same_span(old: &Span, new: &Span) -> bool {
    let same_blocks = || {
        let names = old.blocks.iter().map(name);
        names.eq(new.blocks.iter().map(name))
    };
    old.size == new.size && same_blocks()
}

/// The name of a block; `None` for zeros.
const fn name(block: &BlockRef) -> Option<BlockId> {
    match block {
        BlockRef::Zero => None,
        BlockRef::Stored { id, .. } => Some(*id),
    }
}

fn ids(file: &FileEntry) -> impl Iterator<Item = BlockId> + '_ {
    file.blocks().filter_map(|placed| name(placed.block))
}

fn count(file: &FileEntry, known: &HashSet<BlockId>) -> BlockCounts {
    let mut counts = BlockCounts::default();
    for placed in file.blocks() {
        match name(placed.block) {
            None => counts.zero += 1,
            Some(id) if known.contains(&id) => counts.shared += 1,
            Some(_) => {
                counts.new += 1;
                counts.new_bytes += u64::from(placed.size);
            }
        }
    }
    counts
}

/// Blocks that are not the same at the same place, and their bytes.
fn changed(old: Option<&Span>, new: Option<&Span>) -> (u64, u64) {
    let length = |span: Option<&Span>| span.map_or(0, |span| span.blocks.len());
    let (mut blocks, mut bytes) = (0, 0);
    for index in 0..length(old).max(length(new)) {
        let block = |span: Option<&Span>| {
            let span = span?;
            let name = span.blocks.get(index).map(name)?;
            Some((name, span.block_size(index)))
        };
        let (old, new) = (block(old), block(new));
        if old != new {
            let size = |block: Option<(_, u32)>| block.map_or(0, |(_, size)| size);
            blocks += 1;
            bytes += u64::from(size(old).max(size(new)));
        }
    }
    (blocks, bytes)
}
