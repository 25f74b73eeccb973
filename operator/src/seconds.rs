//! Time as the decisions see it.

use std::ops::Add;

/// A moment, in whole seconds since 1970; or a span of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub i64);

impl Add for Seconds {
    type Output = Self;

    /// Far away is as good as beyond the end.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
