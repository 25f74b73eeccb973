//! How large a checkpoint is, and where its blocks go.

use std::collections::HashSet;

use super::{BLOCK_SIZE, BlockRef, Content, FileEntry, Manifest, Span};

/// A block and its place in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBlock<'a> {
    /// Which one of the file's spans it is in.
    pub span: usize,
    /// Its first byte in the file.
    pub position: u64,
    /// Its size before compression, in bytes: at most [`BLOCK_SIZE`].
    pub size: u32,
    /// Where it is in the store.
    pub block: &'a BlockRef,
}

/// What a checkpoint consists of, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes of all regular files.
    pub plain: u64,
    /// Of these, bytes in zero blocks.
    pub zero: u64,
    /// Blocks, zero ones included.
    pub blocks: u64,
    /// Different blocks in packs.
    pub stored_blocks: u64,
    /// Bytes of those in their packs, sealing and compression included.
    pub stored: u64,
}

impl Span {
    /// Size of its block at `index`, in bytes.
    #[must_use]
    pub fn block_size(&self, index: usize) -> u32 {
        let start = (index as u64).saturating_mul(BLOCK_SIZE.into());
        // At most BLOCK_SIZE.
        u32::try_from(self.size.saturating_sub(start).min(BLOCK_SIZE.into())).unwrap_or(0)
    }
}

impl FileEntry {
    /// The spans of a regular file; none of anything else.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        match &self.content {
            Content::Regular(spans) => spans,
            Content::Directory | Content::Symlink(_) => &[],
        }
    }

    /// Size of a regular file, in bytes; 0 of anything else.
    #[must_use]
    pub fn size(&self) -> u64 {
        let sizes = self.spans().iter().map(|span| span.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Its blocks, from its first byte to its last.
    pub fn blocks(&self) -> impl Iterator<Item = PlacedBlock<'_>> + '_ {
        let mut end = 0u64;
        let starts = self.spans().iter().map(move |span| {
            let start = end;
            end = end.saturating_add(span.size);
            start
        });
        starts
            .zip(self.spans())
            .enumerate()
            .flat_map(|(number, (start, span))| {
                span.blocks
                    .iter()
                    .enumerate()
                    .map(move |(index, block)| PlacedBlock {
                        span: number,
                        position: start
                            .saturating_add((index as u64).saturating_mul(BLOCK_SIZE.into())),
                        size: span.block_size(index),
                        block,
                    })
            })
    }
}

impl Manifest {
    /// Bytes of all its files.
    #[must_use]
    pub fn plain_size(&self) -> u64 {
        let sizes = self.files.iter().map(FileEntry::size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Bytes that its blocks take in their packs, each block counted once.
    #[must_use]
    pub fn stored_size(&self) -> u64 {
        self.totals().stored
    }

    /// All blocks of all files, each with the index of its file.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, PlacedBlock<'_>)> + '_ {
        let files = self.files.iter().enumerate();
        files.flat_map(|(index, file)| file.blocks().map(move |block| (index, block)))
    }

    /// Everything counted at once.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            files: self.files.len() as u64,
            plain: self.plain_size(),
            ..Totals::default()
        };
        let mut seen = HashSet::new();
        for (_, placed) in self.blocks() {
            totals.blocks += 1;
            match placed.block {
                BlockRef::Zero => totals.zero += u64::from(placed.size),
                BlockRef::Stored {
                    pack,
                    offset,
                    stored,
                    ..
                } => {
                    if seen.insert((*pack, *offset)) {
                        totals.stored_blocks += 1;
                        totals.stored += u64::from(*stored);
                    }
                }
            }
        }
        totals
    }
}
