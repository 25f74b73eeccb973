//! The runtime wrapper: containers restored in the place of being created, held ones, and those that are refused.

mod crashes;
mod crun;
mod holds;
pub(crate) mod pod_tool;
mod pods;
pub(crate) mod reboot;
mod refusals;
mod restores;
pub(crate) mod there_and_back;
pub(crate) mod tool;

use crate::case::Case;

/// All of them.
pub(crate) const GROUPS: [&[Case]; 7] = [
    restores::CASES,
    holds::CASES,
    crun::CASES,
    refusals::CASES,
    crashes::CASES,
    pods::CASES,
    there_and_back::CASES,
];
