//! Which blocks go where, and in which order they are fetched.

use std::collections::HashMap;
use std::ops::Range;

use rocferry_image::manifest::{BlockId, BlockRef, Encoding, Manifest, PackId};

use super::Order;

/// A place in a file that a block goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Index of the file in the manifest.
    pub(super) file: usize,
    /// First byte there.
    pub(super) position: u64,
}

/// A block and all its places.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) id: BlockId,
    pub(super) size: u32,
    pub(super) pack: PackId,
    pub(super) offset: u64,
    pub(super) stored: u32,
    pub(super) encoding: Encoding,
    pub(super) targets: Vec<Target>,
}

impl Wanted {
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.stored.into())
    }
}

/// All blocks that are not zero, each once, in the order in which they are wanted.
#[derive(Debug, Default)]
pub(super) struct Plan {
    blocks: Vec<Wanted>,
}

impl Plan {
    pub(super) fn new(manifest: &Manifest, order: &dyn Order) -> Self {
        let mut files: Vec<_> = manifest.files.iter().enumerate().collect();
        files.sort_by_cached_key(|(_, file)| order.rank(file));
        let mut plan = Self::default();
        let mut seen = HashMap::new();
        for (index, file) in files {
            for placed in file.blocks() {
                plan.add(manifest, &mut seen, index, &placed);
            }
        }
        plan
    }

    fn add(
        &mut self,
        manifest: &Manifest,
        seen: &mut HashMap<(u32, u64), usize>,
        file: usize,
        placed: &rocferry_image::manifest::PlacedBlock<'_>,
    ) {
        let BlockRef::Stored {
            id,
            pack: number,
            offset,
            stored,
            encoding,
        } = *placed.block
        else {
            return;
        };
        // A valid manifest lists the packs of all its blocks.
        let Some(pack) = manifest.packs.get(number as usize) else {
            return;
        };
        let target = Target {
            file,
            position: placed.position,
        };
        let place = *seen.entry((number, offset)).or_insert(self.blocks.len());
        match self.blocks.get_mut(place) {
            // The same bytes with another name are another block, and one of both is wrong.
            Some(known) if known.id == id && known.size == placed.size => {
                known.targets.push(target);
            }
            _ => self.blocks.push(Wanted {
                id,
                size: placed.size,
                pack: *pack,
                offset,
                stored,
                encoding,
                targets: vec![target],
            }),
        }
    }

    /// The blocks, some at a time.
    pub(super) fn windows(self, length: usize) -> impl Iterator<Item = Vec<Wanted>> {
        let mut blocks = self.blocks.into_iter();
        std::iter::from_fn(move || {
            let window: Vec<_> = blocks.by_ref().take(length).collect();
            (!window.is_empty()).then_some(window)
        })
    }
}

/// Blocks that are fetched with one request: one after the other in a pack.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) pack: PackId,
    pub(super) range: Range<u64>,
    pub(super) blocks: Vec<Wanted>,
}

/// Blocks put together to runs of at most `limit` bytes, the run of the first block first.
pub(super) fn runs(blocks: Vec<Wanted>, limit: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    // The last run of each pack.
    let mut last: HashMap<PackId, usize> = HashMap::new();
    for block in blocks {
        let range = block.range();
        let run = last.get(&block.pack).and_then(|run| runs.get_mut(*run));
        if let Some(run) = run
            && run.range.end == range.start
            && range.end - run.range.start <= limit
        {
            run.range.end = range.end;
            run.blocks.push(block);
            continue;
        }
        last.insert(block.pack, runs.len());
        runs.push(Run {
            pack: block.pack,
            range,
            blocks: vec![block],
        });
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(pack: u8, offset: u64, stored: u32) -> Wanted {
        Wanted {
            id: BlockId([0; 32]),
            size: stored,
            pack: PackId([pack; 16]),
            offset,
            stored,
            encoding: Encoding::Raw,
            targets: Vec::new(),
        }
    }

    #[test]
    fn neighbours_are_fetched_together() {
        // Two packs that were written by turns.
        let blocks = vec![
            wanted(1, 40, 10),
            wanted(2, 40, 10),
            wanted(1, 50, 10),
            wanted(2, 60, 10),
            wanted(1, 60, 10),
            wanted(1, 70, 11),
        ];
        let runs = runs(blocks, 30);
        let found: Vec<_> = runs
            .iter()
            .map(|run| (run.pack.0[0], run.range.clone(), run.blocks.len()))
            .collect();
        let expected = [
            (1, 40..70, 3),
            (2, 40..50, 1),
            (2, 60..70, 1),
            (1, 70..81, 1),
        ];
        assert_eq!(found, expected);
    }
}
