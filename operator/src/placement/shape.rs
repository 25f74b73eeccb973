//! A topology without the names that differ from machine to machine.

use std::collections::BTreeMap;

use rocferry_topology::{ActualGpuId, CompactError, CompactTopology, System};

/// Bits of a set of GPUs, by their place in the shape.
pub(super) type GpuSet = u128;

/// What many nodes have in common.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Its GPUs are named by their place, from 1: 0 is no gpu_id.
    pub(super) system: System,
}

/// The shape of a topology, its key, and the real names of its GPUs by their place.
pub(super) fn shape(
    topology: &CompactTopology,
) -> Result<(String, Shape, Vec<ActualGpuId>), CompactError> {
    // Refuses what makes no sense, with its real names in the message.
    System::try_from(topology)?;
    let mut plain = topology.clone();
    plain.gpus.sort_by_key(|gpu| gpu.node);
    let ids: Vec<ActualGpuId> = plain.gpus.iter().map(|gpu| gpu.gpu_id).collect();
    for (place, gpu) in plain.gpus.iter_mut().enumerate() {
        gpu.gpu_id = id(place);
        gpu.render_minor = rocferry_topology::RenderMinor(0);
        gpu.domain = 0;
        // Hives go by links.
        gpu.hive_id = None;
        gpu.unique_id = None;
        // Which partition of its card it is: the top four bits, or else the function.
        gpu.location_id = gpu.location_id.map(|location| match location >> 28 {
            0 => location & 7,
            partition => partition << 28,
        });
    }
    let system = System::try_from(&plain)?;
    Ok((key(&plain), Shape { system }, ids))
}

/// Everything that it says, as text.
pub(super) fn key(topology: &CompactTopology) -> String {
    format!("{topology:?}")
}

/// The name of the GPU at a place.
pub(super) fn id(place: usize) -> ActualGpuId {
    ActualGpuId(u32::try_from(place + 1).unwrap_or(u32::MAX))
}

impl Shape {
    /// The GPUs of a set, by their names in the shape.
    pub(super) fn names(set: GpuSet) -> Vec<ActualGpuId> {
        places(set).map(id).collect()
    }

    /// The system as it is on a node with these names.
    pub(super) fn on_node(&self, ids: &[ActualGpuId]) -> System {
        let real: BTreeMap<ActualGpuId, ActualGpuId> = ids
            .iter()
            .enumerate()
            .map(|(place, real)| (id(place), *real))
            .collect();
        self.system.rename(|gpu| real.get(&gpu.id).copied())
    }
}

/// Places in a set.
pub(super) fn places(set: GpuSet) -> impl Iterator<Item = usize> {
    (0..128).filter(move |place| set >> place & 1 != 0)
}
