//! The cases, by theme.

pub(crate) mod bench;
mod layouts;
mod namespaces;
mod rocminfo;
mod round_trip;
mod subset;
mod tree;

use crate::case::Case;

/// All cases, in the order in which they run.
pub(crate) fn all() -> Vec<Case> {
    [
        round_trip::CASES,
        layouts::CASES,
        tree::CASES,
        namespaces::CASES,
        subset::CASES,
        rocminfo::CASES,
    ]
    .concat()
}
