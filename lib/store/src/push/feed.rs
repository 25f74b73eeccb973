//! Files that are still being written.

use std::ops::Range;

use tokio::sync::watch;

use crate::StoreError;

/// The start of a part of a file. Blocks are aligned to it, so that what is between two cuts is found again
/// in another checkpoint wherever it lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// First byte of the part, from the start of the file.
    pub at: u64,
    /// What it is, for people: for instance the GPU and the address of a BO.
    pub label: Option<String>,
}

/// How far a file is.
#[derive(Clone, Debug, Default)]
pub(super) struct Growth {
    /// Bytes from the start that will not change any more.
    pub(super) ready: u64,
    /// Cuts, ascending.
    pub(super) cuts: Vec<Cut>,
    /// Its size, once it is known.
    pub(super) end: Option<u64>,
}

/// The hand of whoever writes a file: says how much of it can be read. Dropping it before
/// [`Feed::finish`] fails the upload.
#[derive(Debug)]
pub struct Feed(watch::Sender<Growth>);

/// The other end of a [`Feed`].
#[derive(Clone, Debug)]
pub struct Readable(pub(super) watch::Receiver<Growth>);

/// A cut that comes too late, or before one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cut at {at}: {after} bytes are given out already")]
pub struct LateCut {
    /// Where the cut should be.
    pub at: u64,
    /// The last cut, or the bytes that are ready.
    pub after: u64,
}

impl Feed {
    /// A file of which nothing is ready.
    #[must_use]
    pub fn new() -> (Self, Readable) {
        let (sender, receiver) = watch::channel(Growth::default());
        (Self(sender), Readable(receiver))
    }

    /// Cuts the file. Cuts come in ascending order, each before the bytes from there on are ready.
    ///
    /// # Errors
    /// [`LateCut`].
    pub fn cut(&self, cut: Cut) -> Result<(), LateCut> {
        let mut late = None;
        self.0.send_if_modified(|growth| {
            let last = growth.cuts.last().map(|last| last.at + 1);
            let after = growth.ready.max(last.unwrap_or(0));
            if cut.at < after {
                late = Some(LateCut { at: cut.at, after });
                return false;
            }
            growth.cuts.push(cut);
            true
        });
        late.map_or(Ok(()), Err)
    }

    /// Says that the first `bytes` will not change any more. Fewer than before change nothing.
    pub fn ready(&self, bytes: u64) {
        self.0.send_if_modified(|growth| {
            let more = bytes > growth.ready;
            growth.ready = growth.ready.max(bytes);
            more
        });
    }

    /// Says that the file is complete with this size.
    pub fn finish(self, size: u64) {
        self.0.send_modify(|growth| {
            growth.ready = size;
            growth.end = Some(size);
        });
    }
}

impl Readable {
    /// A file that is complete.
    ///
    /// # Errors
    /// [`LateCut`] if the cuts are not in ascending order.
    pub fn complete(size: u64, cuts: Vec<Cut>) -> Result<Self, LateCut> {
        let (feed, readable) = Feed::new();
        for cut in cuts {
            feed.cut(cut)?;
        }
        feed.finish(size);
        Ok(readable)
    }

    /// The parts of a file from byte `from` on that are whole blocks.
    pub(super) fn whole_blocks(&self, from: u64, block: u32) -> Vec<Range<u64>> {
        let mut walk = Walk::new(self.clone(), block);
        let mut parts: Vec<Range<u64>> = Vec::new();
        while let Some(Step::Block { position, size, .. }) = walk.step() {
            if position < from || size < block {
                continue;
            }
            let end = position.saturating_add(size.into());
            match parts.last_mut() {
                Some(part) if part.end == position => part.end = end,
                _ => parts.push(position..end),
            }
        }
        parts
    }

    /// Its size, if that is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.0.borrow().end
    }
}

/// What comes next of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A block.
    Block {
        /// First byte in the file.
        position: u64,
        /// Bytes.
        size: u32,
        /// With it a new span begins.
        span: Option<Option<String>>,
    },
    /// Nothing more.
    End,
}

/// Walks through a file, block by block.
#[derive(Debug)]
pub(super) struct Walk {
    readable: Readable,
    block: u32,
    position: u64,
    /// Cuts that are behind.
    passed: usize,
    /// Whether the next block begins a span, and with which label.
    fresh: Option<Option<String>>,
}

impl Walk {
    pub(super) const fn new(readable: Readable, block: u32) -> Self {
        Self {
            readable,
            block,
            position: 0,
            passed: 0,
            fresh: Some(None),
        }
    }

    /// The next block, as soon as it is ready.
    pub(super) async fn next(&mut self, path: &str) -> Result<Step, StoreError> {
        loop {
            if let Some(step) = self.step() {
                return Ok(step);
            }
            if self.readable.0.changed().await.is_err() {
                // The last change may have come just before.
                let path = path.to_owned();
                return self.step().ok_or(StoreError::Unfinished { path });
            }
        }
    }

    fn step(&mut self) -> Option<Step> {
        let growth = self.readable.0.borrow_and_update();
        while let Some(cut) = growth.cuts.get(self.passed)
            && cut.at == self.position
        {
            self.fresh = Some(cut.label.clone());
            self.passed += 1;
        }
        if growth.end.is_some_and(|end| self.position >= end) {
            return Some(Step::End);
        }
        let whole = self.position.saturating_add(self.block.into());
        let cut = growth.cuts.get(self.passed).map_or(u64::MAX, |cut| cut.at);
        let stop = whole.min(cut).min(growth.end.unwrap_or(u64::MAX));
        if growth.ready < stop {
            return None;
        }
        let position = std::mem::replace(&mut self.position, stop);
        Some(Step::Block {
            position,
            // At most a block.
            size: u32::try_from(stop - position).unwrap_or(self.block),
            span: self.fresh.take(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(at: u64) -> Cut {
        let label = Some(at.to_string());
        Cut { at, label }
    }

    fn walk(readable: Readable) -> Vec<(u64, u32, Option<Option<String>>)> {
        let mut walk = Walk::new(readable, 10);
        let mut steps = Vec::new();
        while let Some(Step::Block {
            position,
            size,
            span,
        }) = walk.step()
        {
            steps.push((position, size, span));
        }
        steps
    }

    proptest! {
        #[test]
        fn blocks_fill_the_file_and_keep_to_the_cuts(
            size in 0..200u64,
            cuts in prop::collection::btree_set(0..220u64, 0..8),
        ) {
            let list = cuts.iter().copied().map(cut).collect();
            let steps = walk(Readable::complete(size, list).expect("ascending"));
            let mut end = 0;
            let mut start = 0;
            for (position, bytes, span) in steps {
                prop_assert_eq!(position, end);
                prop_assert!((1..=10).contains(&bytes));
                end = position + u64::from(bytes);
                let is_cut = cuts.contains(&position);
                prop_assert_eq!(span.is_some(), position == 0 || is_cut);
                if let Some(label) = span {
                    start = position;
                    prop_assert_eq!(label, is_cut.then(|| position.to_string()));
                }
                prop_assert_eq!((position - start) % 10, 0);
                prop_assert!(!cuts.iter().any(|cut| position < *cut && *cut < end));
                // Short only before a cut or the end.
                prop_assert!(bytes == 10 || end == size || cuts.contains(&end));
            }
            prop_assert_eq!(end, size);
        }
    }

    #[test]
    fn a_block_comes_when_it_cannot_change_any_more() {
        let (feed, readable) = Feed::new();
        let mut walk = Walk::new(readable, 10);
        feed.ready(9);
        assert_eq!(walk.step(), None);
        feed.ready(13);
        assert!(matches!(
            walk.step(),
            Some(Step::Block {
                position: 0,
                size: 10,
                ..
            })
        ));
        assert_eq!(walk.step(), None);
        // A cut ends a block that is not whole yet.
        feed.cut(cut(13)).expect("in time");
        assert!(matches!(
            walk.step(),
            Some(Step::Block {
                position: 10,
                size: 3,
                ..
            })
        ));
        assert_eq!(feed.cut(cut(13)), Err(LateCut { at: 13, after: 14 }));
        feed.ready(20);
        assert_eq!(feed.cut(cut(19)), Err(LateCut { at: 19, after: 20 }));
        feed.finish(20);
        assert!(matches!(
            walk.step(),
            Some(Step::Block {
                position: 13,
                size: 7,
                ..
            })
        ));
        assert_eq!(walk.step(), Some(Step::End));
    }

    #[tokio::test]
    async fn a_writer_that_gives_up_is_noticed() {
        let (feed, readable) = Feed::new();
        feed.ready(10);
        let mut walk = Walk::new(readable, 10);
        walk.next("a").await.expect("a block");
        drop(feed);
        let error = walk.next("a").await.expect_err("unfinished");
        assert!(matches!(error, StoreError::Unfinished { path } if path == "a"));
    }
}
