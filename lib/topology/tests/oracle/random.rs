//! Chance, the same for the same seed and case.

/// Random numbers of one case.
pub(crate) struct Random(fastrand::Rng);

impl Random {
    /// Those of this case under this seed, whatever other cases have drawn.
    pub(crate) fn of_case(seed: u64, case: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mixed = rng.u64(..) ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(fastrand::Rng::with_seed(mixed))
    }

    /// True in `percent` of 100 times.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(0..100) < percent
    }

    /// Below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.usize(0..end)
    }

    /// Between the two, both included.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        self.0.u32(low..=high)
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() {
            None
        } else {
            Some(of[self.below(of.len())])
        }
    }

    /// A place, the more likely the heavier.
    pub(crate) fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.0.u32(0..weights.iter().sum());
        for (at, weight) in weights.iter().enumerate() {
            if left < *weight {
                return at;
            }
            left -= weight;
        }
        0
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        self.0.shuffle(items);
    }

    /// Different numbers out of a range.
    pub(crate) fn distinct(&mut self, count: usize, low: u32, high: u32) -> Vec<u32> {
        let mut found = Vec::new();
        while found.len() < count {
            let number = self.between(low, high);
            if !found.contains(&number) {
                found.push(number);
            }
        }
        found
    }
}
