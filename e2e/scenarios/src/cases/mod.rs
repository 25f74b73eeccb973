//! The cases, by theme.

pub(crate) mod bench;
mod round_trip;

use crate::case::Case;

/// All cases, in the order in which they run.
pub(crate) fn all() -> Vec<Case> {
    [round_trip::CASES].concat()
}
