//! `rocferry-agent` as users run it.

mod check;
mod hostile;
mod machines;
mod processes;
mod run;
mod show;
#[expect(
    dead_code,
    reason = "these are read from another folder than lib/topology's tests expect"
)]
#[path = "../../../lib/topology/tests/trees/mod.rs"]
mod trees;
