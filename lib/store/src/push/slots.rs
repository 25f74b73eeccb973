//! What the blocks of each file are called: collected by the workers, in whatever order they get done.

use std::sync::{Mutex, PoisonError};

use rocferry_image::manifest::BlockId;

use super::source::NewEntry;

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A worker has it.
    Pending,
    /// All zeros.
    Zero,
    /// Has this name.
    Block(BlockId),
}

/// Where the name of a block goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) block: usize,
}

/// A span and its blocks.
#[derive(Debug)]
pub(super) struct SpanSlots {
    pub(super) label: Option<String>,
    pub(super) size: u64,
    /// Number of its blocks.
    pub(super) blocks: usize,
}

/// An entry, and what its blocks are called.
#[derive(Debug)]
pub(super) struct FileSlots {
    pub(super) entry: NewEntry,
    pub(super) spans: Vec<SpanSlots>,
    pub(super) slots: Vec<Slot>,
}

/// All entries so far.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<Vec<FileSlots>>);

impl Slots {
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Vec<FileSlots>) -> T) -> T {
        // No operation leaves anything half changed.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an entry. Returns its number.
    pub(super) fn add(&self, entry: NewEntry) -> usize {
        self.with(|files| {
            files.push(FileSlots {
                entry,
                spans: Vec::new(),
                slots: Vec::new(),
            });
            files.len() - 1
        })
    }

    /// Adds a block at the end of a file.
    pub(super) fn block(&self, file: usize, size: u32, span: Option<Option<String>>) -> Place {
        self.with(|files| {
            let Some(slots) = files.get_mut(file) else {
                return Place { file, block: 0 };
            };
            if let Some(label) = span {
                slots.spans.push(SpanSlots {
                    label,
                    size: 0,
                    blocks: 0,
                });
            }
            if let Some(span) = slots.spans.last_mut() {
                span.size = span.size.saturating_add(size.into());
                span.blocks += 1;
            }
            slots.slots.push(Slot::Pending);
            let block = slots.slots.len() - 1;
            Place { file, block }
        })
    }

    /// Names a block.
    pub(super) fn set(&self, place: Place, slot: Slot) {
        self.with(|files| {
            let slots = files.get_mut(place.file);
            if let Some(found) = slots.and_then(|slots| slots.slots.get_mut(place.block)) {
                *found = slot;
            }
        });
    }

    /// Everything, when nobody works on it any more.
    pub(super) fn take(&self) -> Vec<FileSlots> {
        self.with(std::mem::take)
    }
}
