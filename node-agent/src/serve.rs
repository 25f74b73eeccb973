//! `rocferry-agent serve`: the daemon of a node.
//!
//! ```text
//! start → recover → every few seconds: a record whose agent is gone? → recover → … → SIGTERM → what is begun is done → end
//!                                                                └ /healthz /readyz /metrics ┘
//! ```
//!
//! It holds nothing that its death could lose: what is frozen or held is in the journal, what was counted in a file.

mod answer;
mod args;
mod health;
mod metrics;
mod tend;

pub(crate) use args::Args;
