//! The blocks of a span, small in memory.

use super::BlockRef;

/// Blocks that one word of the map tells apart.
const WORD: usize = u64::BITS as usize;

/// The blocks of a [`Span`](super::Span), in order. Zero blocks cost at most a bit each, none where all are
/// zero: a list is hardly larger than its encoding, whoever made that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    len: usize,
    /// Those that are in packs.
    stored: Vec<BlockRef>,
    /// Which ones they are; `None` when that is all of them or none.
    map: Option<Box<Map>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Map {
    /// Bit `i % 64` of word `i / 64` is set when block `i` is in a pack.
    words: Vec<u64>,
    /// Set bits before each word.
    before: Vec<usize>,
}

impl Map {
    /// `len` blocks that are all stored, or all zero.
    fn uniform(len: usize, stored: bool) -> Self {
        let mut map = Self::default();
        let ones = if stored { u64::MAX } else { 0 };
        for start in (0..len).step_by(WORD) {
            let bits = (len - start).min(WORD);
            map.before.push(if stored { start } else { 0 });
            map.words.push(ones & (u64::MAX >> (WORD - bits)));
        }
        map
    }

    /// Block `len`, after `stored` stored ones.
    fn push(&mut self, len: usize, stored: usize, bit: bool) {
        if len.is_multiple_of(WORD) {
            self.before.push(stored);
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            *word |= u64::from(bit) << (len % WORD);
        }
    }

    /// How many stored blocks are before block `index`, if that is one itself.
    fn rank(&self, index: usize) -> Option<usize> {
        let word = self.words.get(index / WORD)?;
        let bit = 1u64 << (index % WORD);
        if word & bit == 0 {
            return None;
        }
        let within = (word & (bit - 1)).count_ones() as usize;
        Some(self.before.get(index / WORD)? + within)
    }
}

impl Blocks {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self::zero(0)
    }

    /// `len` zero blocks.
    #[must_use]
    pub const fn zero(len: usize) -> Self {
        Self {
            len,
            stored: Vec::new(),
            map: None,
        }
    }

    /// Number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True without any block.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a block at the end.
    pub fn push(&mut self, block: BlockRef) {
        let stored = block != BlockRef::Zero;
        let uniform = self.len == 0 || stored != self.stored.is_empty();
        if self.map.is_none() && !uniform {
            self.map = Some(Box::new(Map::uniform(self.len, !stored)));
        }
        if let Some(map) = &mut self.map {
            map.push(self.len, self.stored.len(), stored);
        }
        if stored {
            self.stored.push(block);
        }
        self.len += 1;
    }

    /// Block number `index`, in constant time.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&BlockRef> {
        if index >= self.len {
            return None;
        }
        let rank = match &self.map {
            Some(map) => map.rank(index),
            None => Some(index),
        };
        Some(
            rank.and_then(|rank| self.stored.get(rank))
                .unwrap_or(&BlockRef::Zero),
        )
    }

    /// All blocks, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &BlockRef> + Clone + '_ {
        (0..self.len).map(|index| self.get(index).unwrap_or(&BlockRef::Zero))
    }

    /// The blocks that are in packs, in order.
    #[must_use]
    pub fn stored(&self) -> &[BlockRef] {
        &self.stored
    }

    /// Number of zero blocks.
    #[must_use]
    pub const fn zeros(&self) -> usize {
        self.len - self.stored.len()
    }
}

impl FromIterator<BlockRef> for Blocks {
    fn from_iter<I: IntoIterator<Item = BlockRef>>(blocks: I) -> Self {
        let mut list = Self::new();
        list.extend(blocks);
        list
    }
}

impl Extend<BlockRef> for Blocks {
    fn extend<I: IntoIterator<Item = BlockRef>>(&mut self, blocks: I) {
        blocks.into_iter().for_each(|block| self.push(block));
    }
}

impl From<Vec<BlockRef>> for Blocks {
    fn from(blocks: Vec<BlockRef>) -> Self {
        blocks.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{BlockId, Encoding};
    use super::*;

    fn stored(number: u32) -> BlockRef {
        BlockRef::Stored {
            id: BlockId([7; 32]),
            pack: 0,
            offset: number.into(),
            stored: number,
            encoding: Encoding::Raw,
        }
    }

    proptest! {
        #[test]
        fn a_list_holds_what_was_put_in(
            runs in prop::collection::vec((any::<bool>(), 1..150usize), 0..6),
        ) {
            let zeros = runs.iter().flat_map(|(zero, len)| std::iter::repeat_n(*zero, *len));
            let model: Vec<_> = (0u32..)
                .zip(zeros)
                .map(|(number, zero)| if zero { BlockRef::Zero } else { stored(number) })
                .collect();
            let blocks = Blocks::from(model.clone());
            prop_assert_eq!(blocks.len(), model.len());
            prop_assert_eq!(blocks.is_empty(), model.is_empty());
            prop_assert_eq!(blocks.iter().copied().collect::<Vec<_>>(), model.clone());
            for (index, block) in model.iter().enumerate() {
                prop_assert_eq!(blocks.get(index), Some(block));
            }
            prop_assert_eq!(blocks.get(model.len()), None);
            let zeros = model.iter().filter(|block| **block == BlockRef::Zero).count();
            prop_assert_eq!(blocks.zeros(), zeros);
            prop_assert_eq!(blocks.stored().len(), model.len() - zeros);
        }
    }

    #[test]
    fn uniform_lists_have_no_map() {
        for block in [BlockRef::Zero, stored(1)] {
            let mut blocks = Blocks::from(vec![block; 1000]);
            assert_eq!(blocks.map, None);
            assert_eq!(block == BlockRef::Zero, blocks == Blocks::zero(1000));
            blocks.push(BlockRef::Zero);
            blocks.push(stored(2));
            assert!(blocks.map.is_some());
        }
    }
}
