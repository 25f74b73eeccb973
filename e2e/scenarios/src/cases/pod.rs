//! Whole pods: checkpointed at one instant, kept frozen, stopped; by the agent's own means, under real runc.

mod connections;
mod crashes;
mod kept;
mod made;
mod refused;
mod server;
mod together;
pub(crate) mod tool;

use crate::case::Case;

/// All of them.
pub(crate) const GROUPS: [&[Case]; 7] = [
    made::CASES,
    together::CASES,
    kept::CASES,
    server::CASES,
    refused::CASES,
    connections::CASES,
    crashes::CASES,
];
