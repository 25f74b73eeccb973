//! The cases, by theme.

mod agent;
pub(crate) mod bench;
mod clocks;
mod compat;
mod containers;
mod corner_cases;
mod cri;
mod damage;
pub(crate) mod defects;
mod failures;
mod layouts;
pub(crate) mod machines;
pub(crate) mod namespaces;
mod pod;
mod refusals;
mod restore_failures;
mod rocminfo;
mod round_trip;
mod slow_copies;
mod streaming;
mod subset;
pub(crate) mod systemd;
mod topology;
mod topology_described;
mod topology_presets;
mod topology_refusals;
mod topology_subsets;
mod topology_trees;
mod tree;
pub(crate) mod wrapper;

use crate::case::Case;

/// All cases, in the order in which they run.
pub(crate) fn all() -> Vec<Case> {
    let plugin = [
        round_trip::CASES,
        layouts::CASES,
        tree::CASES,
        namespaces::CASES,
        subset::CASES,
        containers::runc::CASES,
        containers::engines::CASES,
        containers::failures::CASES,
        containers::hook::CASES,
        containers::wrapped::CASES,
        topology_trees::CASES,
        topology_presets::CASES,
        topology_described::CASES,
        topology_subsets::CASES,
        topology_refusals::CASES,
        clocks::CASES,
        streaming::CASES,
        rocminfo::CASES,
        failures::CASES,
        slow_copies::CASES,
        restore_failures::CASES,
        corner_cases::CASES,
        damage::CASES,
        refusals::CASES,
        defects::CASES,
        compat::CASES,
    ];
    let mut all = [
        plugin.concat(),
        agent::GROUPS.concat(),
        wrapper::GROUPS.concat(),
        pod::GROUPS.concat(),
        cri::GROUPS.concat(),
    ]
    .concat();
    all.extend(systemd::cases(&all));
    all
}
