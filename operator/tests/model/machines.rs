//! What really runs: nodes, the processes on them, and the kubelet of each.

use std::collections::BTreeMap;

use crate::api::{NodeIndex, PodId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The process that was there from the start.
    Original,
    /// One restored from the checkpoint.
    Restored,
    /// One started anew.
    Cold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Running,
    Frozen,
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) line: Line,
    pub(crate) state: ProcessState,
    /// What it has acknowledged to the outside.
    pub(crate) acknowledged: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) up: bool,
    /// Cut off from the API server.
    pub(crate) cut: bool,
    pub(crate) processes: BTreeMap<PodId, Process>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self {
            up: true,
            cut: false,
            processes: BTreeMap::new(),
        }
    }

    /// The API server and this node can talk.
    pub(crate) fn online(&self) -> bool {
        self.up && !self.cut
    }
}

/// All processes, with their nodes.
pub(crate) fn processes(machines: &[Machine]) -> impl Iterator<Item = (NodeIndex, PodId, Process)> {
    machines.iter().enumerate().flat_map(|(node, machine)| {
        machine
            .processes
            .iter()
            .map(move |(pod, process)| (node, *pod, *process))
    })
}
