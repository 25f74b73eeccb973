//! The mapping from the GPUs of a checkpoint to those of the system at hand.

use std::collections::HashSet;

use serde::Serialize;

use crate::{ActualGpuId, NodeId, UserGpuId};

/// Which GPU of this system stands in for which GPU of the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mapping {
    #[serde(rename = "gpus")]
    pairs: Vec<(UserGpuId, ActualGpuId)>,
    cpus: Vec<(NodeId, NodeId)>,
}

impl Mapping {
    pub(crate) const fn new(
        pairs: Vec<(UserGpuId, ActualGpuId)>,
        cpus: Vec<(NodeId, NodeId)>,
    ) -> Self {
        Self { pairs, cpus }
    }

    /// From pairs, each id at most once on its side (`None` otherwise), without CPUs.
    #[must_use]
    pub fn from_pairs(pairs: Vec<(UserGpuId, ActualGpuId)>) -> Option<Self> {
        let users: HashSet<_> = pairs.iter().map(|pair| pair.0).collect();
        let actuals: HashSet<_> = pairs.iter().map(|pair| pair.1).collect();
        (users.len() == pairs.len() && actuals.len() == pairs.len())
            .then(|| Self::new(pairs, Vec::new()))
    }

    /// The GPU that stands in for `user`.
    #[must_use]
    pub fn actual(&self, user: UserGpuId) -> Option<ActualGpuId> {
        self.pairs
            .iter()
            .find(|pair| pair.0 == user)
            .map(|pair| pair.1)
    }

    /// The GPU of the checkpoint for which `actual` stands in.
    #[must_use]
    pub fn user(&self, actual: ActualGpuId) -> Option<UserGpuId> {
        self.pairs
            .iter()
            .find(|pair| pair.1 == actual)
            .map(|pair| pair.0)
    }

    /// All pairs, by the node of the source GPU.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (UserGpuId, ActualGpuId)> {
        self.pairs.iter().copied()
    }

    /// Which CPU of this system stands in for which CPU of the checkpoint, for the CPUs that the GPUs of the
    /// checkpoint have links to. Empty when nobody insists on NUMA.
    #[must_use]
    pub fn cpus(&self) -> &[(NodeId, NodeId)] {
        &self.cpus
    }

    /// Number of pairs of GPUs.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.pairs.len()
    }

    /// True for a mapping without GPUs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Every GPU stands in for itself.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.pairs
            .iter()
            .all(|(user, actual)| user.get() == actual.get())
    }
}
