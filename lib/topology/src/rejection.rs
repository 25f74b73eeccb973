//! Why a checkpoint's GPUs cannot be restored on a system.

use serde::Serialize;
use thiserror::Error;

pub(crate) mod explain;
mod gpu;
mod text;

pub use gpu::{RejectedCandidate, RejectedGpu};

use crate::{ActualGpuId, NodeId, Switch, UserGpuId};
use gpu::Closest;
use text::{list, plural};

/// A checkpoint that cannot be matched with anything.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The same GPU is given twice.
    #[error("GPU {gpu} is twice in the checkpoint")]
    DuplicateGpu {
        /// The GPU.
        gpu: UserGpuId,
    },
    /// Two GPUs have the same node number.
    #[error("Node {node} is twice in the checkpoint")]
    DuplicateNode {
        /// The node.
        node: NodeId,
    },
    /// More GPUs than can be matched.
    #[error("Checkpoint holds {gpus} GPUs, more than {limit}")]
    TooManyGpus {
        /// GPUs in the checkpoint.
        gpus: usize,
        /// The bound.
        limit: usize,
    },
    /// The GPUs have links to more CPUs than can be matched.
    #[error("GPUs of the checkpoint have links to {cpus} CPUs, more than {limit}")]
    TooManyCpus {
        /// CPUs in the checkpoint.
        cpus: usize,
        /// The bound.
        limit: usize,
    },
}

/// A rule that ties several GPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tie {
    /// GPUs of one hive stay in one hive, those of different hives do not.
    Hives,
    /// GPUs of one CPU stay at one CPU, those of different CPUs do not.
    Numa,
    /// GPUs have as many links to those that are chosen with them as they had.
    Links,
}

impl Tie {
    const fn text(self) -> &'static str {
        match self {
            Self::Hives => "hives kept together",
            Self::Numa => "CPUs kept together",
            Self::Links => "their links to each other kept",
        }
    }
}

/// A hive or CPU here, with as many of the asked-for GPUs as it could take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The CPU's node; `None` for a hive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<NodeId>,
    /// Its usable GPUs.
    pub gpus: Vec<ActualGpuId>,
    /// How many of the GPUs it could take.
    pub fits: usize,
}

/// Why there is no mapping: the smallest constraint that fails. [`Rejection::lines`] has the details.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Rejection {
    /// The kernel restores a process onto exactly as many GPUs as it had.
    #[error("Checkpoint holds {}, but {usable} are usable here", plural(*.needed, "GPU"))]
    CountMismatch {
        /// GPUs in the checkpoint.
        needed: usize,
        /// GPUs that the restored task can open.
        usable: usize,
    },
    /// There are not enough.
    #[error("Checkpoint holds {}, but only {usable} are free here", plural(*.needed, "GPU"))]
    TooFewGpus {
        /// GPUs in the checkpoint.
        needed: usize,
        /// GPUs that may be chosen.
        usable: usize,
    },
    /// More GPUs than can be matched.
    #[error("{gpus} GPUs are usable here, more than {limit}")]
    TooManyGpus {
        /// Usable GPUs.
        gpus: usize,
        /// The bound.
        limit: usize,
    },
    /// The GPUs have links to more CPUs than can be matched.
    #[error("GPUs here have links to {cpus} CPUs, more than {limit}")]
    TooManyCpus {
        /// CPUs here.
        cpus: usize,
        /// The bound.
        limit: usize,
    },
    /// A usable GPU is not in the topology that was read.
    #[error("GPU {gpu} is usable, but not once in the topology")]
    NotInTopology {
        /// The GPU.
        gpu: ActualGpuId,
    },
    /// The same destination GPU is given twice.
    #[error("GPU {gpu} is given twice as usable")]
    GivenTwice {
        /// The GPU.
        gpu: ActualGpuId,
    },
    /// Two usable GPUs have the same node number.
    #[error("Node {node} is twice in the topology")]
    DuplicateNode {
        /// The node.
        node: NodeId,
    },
    /// The process retries page faults, which the driver here does not.
    #[error("Checkpoint runs with XNACK on, which the driver here does not allow")]
    Xnack,
    /// Source GPUs that no usable GPU can replace.
    #[error("No usable GPU can replace {}{}", list(&ids(.gpus)), Closest(.gpus))]
    NoCandidate {
        /// Those GPUs.
        gpus: Vec<RejectedGpu>,
    },
    /// Each source GPU has a candidate, but these share too few of them.
    #[error("{} of the checkpoint fit only {candidates} usable ones: {}{}", plural(.gpus.len(), "GPU"), list(&ids(.gpus)), Closest(.gpus))]
    TooFewCandidates {
        /// Those GPUs.
        gpus: Vec<RejectedGpu>,
        /// Number of GPUs here that any of them can use.
        candidates: usize,
    },
    /// GPUs of one hive find no hive that takes them all.
    #[error("GPUs {} of the checkpoint are one hive, and {}", list(.gpus), text::best_place(.places, "hive"))]
    NoHive {
        /// The hive's GPUs.
        gpus: Vec<UserGpuId>,
        /// The hives here.
        places: Vec<Place>,
    },
    /// Several hives have too few hives here that could take one of them.
    #[error("{} of the checkpoint fit only {candidates} here: {}", plural(.hives.len(), "hive"), text::groups(.hives))]
    TooFewHives {
        /// The GPUs of those hives.
        hives: Vec<Vec<UserGpuId>>,
        /// Number of hives here that any of them could take.
        candidates: usize,
    },
    /// GPUs of one CPU find no CPU here that has places for them all.
    #[error("GPUs {} of the checkpoint share CPU {cpu}, and {}{}", list(.gpus), text::best_place(.places, "CPU"), text::allows(Switch::Numa))]
    NoCpu {
        /// The CPU in the checkpoint.
        cpu: NodeId,
        /// Its GPUs.
        gpus: Vec<UserGpuId>,
        /// The CPUs here that GPUs have links to.
        places: Vec<Place>,
    },
    /// Several CPUs have too few CPUs here that could stand in for one of them.
    #[error("{} of the checkpoint ({}) fit only {candidates} here{}", plural(.cpus.len(), "CPU"), list(.cpus), text::allows(Switch::Numa))]
    TooFewCpus {
        /// Those CPUs.
        cpus: Vec<NodeId>,
        /// Number of CPUs here that any of them could take.
        candidates: usize,
    },
    /// Each rule can be kept by itself, but not these together for these GPUs.
    #[error("GPUs {} of the checkpoint cannot all be placed with {}{}", list(.gpus), text::ties(.ties), text::allows_any(.ties))]
    Together {
        /// Source GPUs that already cannot be placed; without any one of them the rest could.
        gpus: Vec<UserGpuId>,
        /// The rules that clash; without any one of them there would be a mapping.
        ties: Vec<Tie>,
    },
    /// The search was given up. Whether there is a mapping is not known.
    #[error("No mapping found within {steps} steps of the search; there may be one")]
    Undecided {
        /// Steps taken.
        steps: u64,
    },
}

impl Rejection {
    /// The whole explanation, a line each: for each source GPU that could not be placed, why each candidate
    /// was rejected, with property, both values and the switch that would allow it; for groups of GPUs, what
    /// each place could take.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::NoCandidate { gpus } | Self::TooFewCandidates { gpus, .. } => {
                gpus.iter().flat_map(RejectedGpu::lines).collect()
            }
            Self::NoHive { places, .. } | Self::NoCpu { places, .. } => {
                let places = places.iter().map(text::place);
                std::iter::once(self.to_string()).chain(places).collect()
            }
            other => vec![other.to_string()],
        }
    }
}

fn ids(gpus: &[RejectedGpu]) -> Vec<UserGpuId> {
    gpus.iter().map(|rejected| rejected.gpu).collect()
}
