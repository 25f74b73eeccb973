//! The node agent: checkpoints through a store, restores from it, and what is left when either is broken off.

mod carry;
mod containers;
mod crashes;
pub(crate) mod daemon;
pub(crate) mod engines;
mod failures;
mod freeze_speed;
mod holding;
mod installed;
mod probing;
pub(crate) mod tool;

pub(crate) use freeze_speed::freeze_speed;

use crate::case::Case;

/// All of them.
pub(crate) const GROUPS: [&[Case]; 9] = [
    probing::CASES,
    installed::CASES,
    carry::CASES,
    failures::CASES,
    holding::CASES,
    crashes::CASES,
    containers::CASES,
    daemon::CASES,
    engines::CASES,
];
