//! Measurements that need the simulated GPUs.

use anyhow::{Result, bail};

/// Runs one benchmark.
pub(crate) fn run(name: &str, args: &[String]) -> Result<bool> {
    bail!("no benchmark {name} {args:?}")
}
