//! The cases, by theme.

pub(crate) mod bench;
mod clocks;
mod compat;
mod corner_cases;
mod damage;
pub(crate) mod defects;
mod failures;
mod layouts;
pub(crate) mod namespaces;
mod refusals;
mod restore_failures;
mod rocminfo;
mod round_trip;
mod slow_copies;
mod streaming;
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
        clocks::CASES,
        streaming::CASES,
        rocminfo::CASES,
        failures::CASES,
        slow_copies::CASES,
        restore_failures::CASES,
        corner_cases::CASES,
        damage::CASES,
        refusals::CASES,
        defects::CASES,
        compat::CASES,
    ]
    .concat()
}
