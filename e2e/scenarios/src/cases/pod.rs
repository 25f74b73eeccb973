//! Whole pods: checkpointed at one instant, kept frozen, stopped; by the agent's own means, under real runc.

mod made;

use crate::case::Case;

/// All of them.
pub(crate) const GROUPS: [&[Case]; 1] = [made::CASES];
