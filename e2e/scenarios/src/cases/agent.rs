//! The node agent: checkpoints through a store, restores from it, and what is left when either is broken off.

mod carry;
mod containers;
mod crashes;
mod failures;
mod holding;
mod tool;

use crate::case::Case;

/// All of them.
pub(crate) const GROUPS: [&[Case]; 5] = [
    carry::CASES,
    failures::CASES,
    holding::CASES,
    crashes::CASES,
    containers::CASES,
];
