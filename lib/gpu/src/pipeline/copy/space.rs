//! GPU virtual addresses of a file that nobody else uses.

use std::collections::BTreeMap;
use std::ops::Range;

/// Where mappings begin: at large steps, so that page tables can use large entries.
const STEP: u64 = 2 << 20;
/// Between two mappings at least this much is left unmapped: whoever copies too much meets no neighbour.
const GUARD: u64 = 64 << 10;

/// Which addresses are taken.
#[derive(Debug)]
pub(super) struct Space {
    limits: Range<u64>,
    /// End of each taken range, by its start.
    taken: BTreeMap<u64, u64>,
}

impl Space {
    /// All of `limits` is free.
    pub(super) fn new(limits: Range<u64>) -> Self {
        Self {
            limits,
            taken: BTreeMap::new(),
        }
    }

    /// Takes `bytes` bytes with a guard gap on both sides; the lowest place that fits.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let mut start = self
            .limits
            .start
            .checked_add(GUARD)?
            .checked_next_multiple_of(STEP)?;
        for (&taken, &end) in &self.taken {
            if start.checked_add(bytes)?.checked_add(GUARD)? <= taken {
                break;
            }
            start = end.checked_add(GUARD)?.checked_next_multiple_of(STEP)?;
        }
        let end = start.checked_add(bytes)?;
        if end.checked_add(GUARD)? > self.limits.end {
            return None;
        }
        self.taken.insert(start, end);
        Some(start)
    }

    /// Gives back what [`Space::take`] gave.
    pub(super) fn give_back(&mut self, start: u64) {
        self.taken.remove(&start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_touches() {
        let mut space = Space::new(0x1_0000..1 << 40);
        let mut taken = Vec::new();
        for bytes in [4096, 4 << 20, 1 << 30, (2 << 20) - 4096, 8192] {
            taken.push((space.take(bytes).unwrap(), bytes));
        }
        taken.sort_unstable();
        for pair in taken.windows(2) {
            assert!(pair[0].0 + pair[0].1 + GUARD <= pair[1].0);
            assert_eq!(pair[0].0 % STEP, 0);
        }
    }

    #[test]
    fn gaps_are_used_again_and_limits_kept() {
        let mut space = Space::new(0..16 << 20);
        let first = space.take(4096).unwrap();
        let second = space.take(4096).unwrap();
        space.give_back(first);
        assert_eq!(space.take(4096), Some(first));
        space.give_back(second);
        assert_eq!(space.take(1 << 30), None);
        assert_eq!(space.take(u64::MAX), None);
        let mut count = 0;
        while space.take(4096).is_some() {
            count += 1;
        }
        assert_eq!(count, 6);
    }
}
