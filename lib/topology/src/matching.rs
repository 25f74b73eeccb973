//! The search for a mapping, on GPUs, CPUs and hives that are numbered from 0.

pub(crate) mod bipartite;
pub(crate) mod bits;
pub(crate) mod prefer;
pub(crate) mod problem;
pub(crate) mod search;
pub(crate) mod side;
pub(crate) mod state;
mod symmetry;
mod verdict;
