//! Small sets of indices.

/// A set of numbers below 128: GPUs, CPUs or hives of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bits(u128);

impl Bits {
    /// How many different members there can be.
    pub(crate) const CAPACITY: usize = 128;
    pub(crate) const EMPTY: Self = Self(0);

    /// 0 up to, not including, `count`.
    pub(crate) const fn first(count: usize) -> Self {
        if count >= Self::CAPACITY {
            Self(u128::MAX)
        } else {
            Self((1 << count) - 1)
        }
    }

    pub(crate) const fn one(index: usize) -> Self {
        Self(1 << index)
    }

    pub(crate) const fn has(self, index: usize) -> bool {
        self.0 >> index & 1 != 0
    }

    pub(crate) const fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    pub(crate) const fn remove(&mut self, index: usize) {
        self.0 &= !(1 << index);
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The lowest member.
    pub(crate) const fn lowest(self) -> Option<usize> {
        if self.0 == 0 {
            None
        } else {
            Some(self.0.trailing_zeros() as usize)
        }
    }

    /// The member, if it is the only one.
    pub(crate) const fn single(self) -> Option<usize> {
        if self.0 != 0 && self.0 & (self.0 - 1) == 0 {
            Some(self.0.trailing_zeros() as usize)
        } else {
            None
        }
    }

    /// Members of both.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Members of either.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Members of this one alone.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Every member of this one is in `other`.
    pub(crate) const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Members, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let index = rest.lowest()?;
            rest.0 &= rest.0 - 1;
            Some(index)
        })
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(members: I) -> Self {
        let mut bits = Self::EMPTY;
        for member in members {
            bits.add(member);
        }
        bits
    }
}
