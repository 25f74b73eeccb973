//! Containers: the unmodified plugin in CRIU's folder, under the engines that people use.

pub(crate) mod engines;
pub(crate) mod failures;
pub(crate) mod hook;
pub(crate) mod runc;
pub(crate) mod wrapped;

use crate::case::{Case, Lab, On};
use crate::containers::WORKLOAD;

/// The workload as process 1, with objects of every kind that take little time to prove.
pub(crate) const COMMAND: &[&str] = &[
    WORKLOAD,
    "--state",
    "/work/state",
    "--bo",
    "vram:192K:2",
    "--bo",
    "gtt:64K",
    "--bo",
    "userptr:64K",
];

const fn case(name: &'static str, run: fn(&mut Lab) -> anyhow::Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s: 600,
        run,
    }
}
