//! Where in the fd table the GPU files are, and what else is there.
//!
//! The workload's proof compares the table: numbers, which of them are one open file (kcmp), status flags,
//! close-on-exec, and the GPU behind each render file. [`crate::view`] compares it from outside (F31).

use anyhow::Result;

use super::round_trip::{OTHER, SMALL};
use crate::case::{Case, Lab, On};

macro_rules! layouts {
    ($($name:literal, $on:ident, [$($arg:literal),+];)+) => {
        pub(crate) const CASES: &[Case] = &[$(Case {
            name: concat!("layouts/", $name),
            on: On::$on,
            limit_s: 60,
            run: |lab| layout(lab, &[$($arg),+]),
        }),+];
    };
}

layouts! {
    "dense", All, ["--fds", "dense"];
    "fd0_closed", Newest, ["--fds", "fd0-closed"];
    "fd0_is_kfd", All, ["--fds", "fd0-kfd"];
    "fd0_is_a_render_node", Newest, ["--fds", "fd0-render"];
    // F10
    "render_before_kfd", All, ["--fds", "render-first"];
    // F22
    "two_opens_of_kfd", Newest, ["--fds", "two-kfd"];
    "two_opens_of_render_nodes", Newest, ["--fds", "two-render"];
    // F8: nothing of a render node is mapped, so only the open files can enter the plugin's name.
    "no_mapping_of_a_render_node", Newest, ["--fds", "no-render-map", "--no-bo", "--no-heartbeat"];
    "duplicates", All, ["--fds", "dup"];
    "kfd_above_all_others", Newest, ["--fds", "kfd-high"];
    "status_flags", All, ["--flags"];
    "all_at_once", All, ["--fds", "dense,fd0-render,two-kfd,two-render,dup", "--flags"];
}

pub(super) fn layout(lab: &mut Lab, args: &[&str]) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let args: Vec<_> = if args.contains(&"--no-bo") {
        args.to_vec()
    } else {
        args.iter().chain(SMALL).copied().collect()
    };
    let mut workload = lab.workload(&args)?;
    lab.round_trip(&mut workload, Some(&format!("preset=gfx90a-2 {OTHER}")))?;
    workload.finish()
}
