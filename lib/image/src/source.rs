//! The system that a checkpoint comes from, out of everything that its images tell.

use rocferry_topology::{Node, System, UserGpuId};

use crate::{KfdImage, TaskRecord};

/// The GPUs of a process and their CPUs as they were at the dump: the device entries of `image`, whether the
/// process ran with XNACK, and from `record`, where there is one, what the C plugin does not write down.
#[must_use]
pub fn source_system(image: &KfdImage, record: Option<&TaskRecord>) -> System<UserGpuId> {
    let mut system = image.system.clone();
    system.xnack = image.xnack();
    let sdma = image.sdma_gpus();
    let devices = record.iter().flat_map(|record| &record.devices);
    system.sdma_partitions = devices
        .filter(|device| sdma.contains(&device.user))
        .filter_map(|device| Some((device.user, device.partition_index?)))
        .collect();
    for node in &mut system.nodes {
        let Node::Gpu(gpu) = node else { continue };
        let devices = record.iter().flat_map(|record| &record.devices);
        for device in devices.filter(|device| device.user == gpu.id) {
            gpu.gfx_target_version = device.gfx_target_version;
            gpu.num_xcc = device.num_xcc;
            gpu.compute_partition = device.compute_partition;
            gpu.memory_partition = device.memory_partition;
        }
    }
    system
}
