//! What a checkpoint needs of a node.

use std::collections::{BTreeMap, BTreeSet};

use rocferry_topology::{
    Checks, CompactError, CompactTopology, Matcher, SourceError, System, UserGpuId,
};
use thiserror::Error;

use super::Version;
use super::shape;

/// What a restore needs.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// The request, by UID: what is promised to it is told by this.
    pub request: String,
    /// GPUs of each container that has any.
    pub gpus: Vec<GpuDemand>,
    /// This node or none.
    pub node_name: Option<String>,
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Nodes that were tried.
    pub tried: BTreeSet<String>,
    /// The store that has it.
    pub store: String,
    /// Names of the checkpoints there.
    pub checkpoints: Vec<String>,
    /// Bytes that are brought back while a container is created, for the largest one.
    pub container_bytes: u64,
    /// Bytes of all of it.
    pub bytes: u64,
    /// Features of the CPU that it relies on.
    pub cpu_features: BTreeSet<String>,
    /// CRIU that it was dumped with.
    pub criu: Option<Version>,
    /// It is to be held.
    pub held: bool,
}

/// The GPUs of one container.
#[derive(Clone, Debug)]
pub struct GpuDemand {
    /// The container.
    pub container: String,
    /// Prepared for the names that the checkpoint has.
    pub(super) matcher: Matcher,
    /// Questions with the same key have the same answer.
    pub(super) key: String,
}

/// A checkpoint whose GPUs make no sense.
#[derive(Debug, Error)]
pub enum DemandError {
    /// Its topology.
    #[error(
        "The topology in the checkpoint of container {container} makes no sense; take another checkpoint"
    )]
    Topology {
        /// The container.
        container: String,
        /// Why.
        #[source]
        source: CompactError,
    },
    /// Its GPUs.
    #[error(
        "The GPUs in the checkpoint of container {container} cannot be matched; take another checkpoint"
    )]
    Gpus {
        /// The container.
        container: String,
        /// Why.
        #[source]
        source: SourceError,
    },
}

impl GpuDemand {
    /// The GPUs that a checkpoint's manifest has for a container, and the checks to make.
    ///
    /// # Errors
    /// [`DemandError`], if the manifest makes no sense.
    pub fn new(
        container: &str,
        topology: &CompactTopology,
        checks: Checks,
    ) -> Result<Self, DemandError> {
        let no_topology = |source| DemandError::Topology {
            container: container.to_owned(),
            source,
        };
        let system = System::try_from(topology).map_err(no_topology)?;
        let system: System<UserGpuId> = system.rename(|gpu| Some(UserGpuId(gpu.id.get())));
        let no_match = |source| DemandError::Gpus {
            container: container.to_owned(),
            source,
        };
        let matcher = Matcher::new(&system, checks).map_err(no_match)?;
        let (plain, _, _) = shape::shape(topology).map_err(no_topology)?;
        let key = format!("{checks:?} {plain}");
        Ok(Self {
            container: container.to_owned(),
            matcher,
            key,
        })
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.matcher.gpus().len()
    }
}
