//! The runtime wrapper: containers restored in the place of being created, held ones, and those that are refused.

mod crashes;
mod holds;
mod refusals;
mod restores;
mod tool;

use crate::case::Case;

/// All of them.
pub(crate) const GROUPS: [&[Case]; 4] = [
    restores::CASES,
    holds::CASES,
    refusals::CASES,
    crashes::CASES,
];
