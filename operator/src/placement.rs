//! Where a checkpoint can be restored: the nodes, what is free on them, and why not elsewhere.
//!
//! Thousands of nodes are of few shapes. A node's topology without its names is its shape, and whether a checkpoint fits into
//! the free GPUs of a shape is worked out once, whichever nodes and requests ask.
//!
//! Consistency: GPUs that were promised to a request count as taken until it is released, so many requests can be placed on one view
//! of the world. Crash: promises are made again from the requests that have a node and no pod there yet.

mod demand;
mod node;
mod nodes;
mod reject;
mod shape;

pub use demand::{Demand, DemandError, GpuDemand};
pub use node::{NodeFacts, Version};
pub use nodes::{Nodes, Placed, Unplaced};
pub use reject::{MAX_GROUPS, MAX_NAMES, Reason, RejectedGroup};
