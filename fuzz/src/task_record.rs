//! Task records: devices and device mappings of a process.

use rocferry_image::{DeviceVma, FileId, Image, TaskDevice, TaskPid, TaskRecord, VmaKind};
use rocferry_topology::{ActualGpuId, ComputePartition, System, UserGpuId};

use crate::{MAX_SEED, Seed, checkpoints};

/// Decodes a record; true if it is one. What is accepted can be written, and is the same after that.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    let Ok(record) = TaskRecord::decode(data) else {
        return false;
    };
    record.validate().expect("accepted, then not valid");
    let written = record.encode();
    assert_eq!(TaskRecord::decode(&written).as_ref(), Ok(&record));
    true
}

/// A process with all GPUs of each machine.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let record = |(name, system): (String, System<UserGpuId>)| Seed {
        content: process(&system).encode(),
        name,
    };
    let mut seeds: Vec<Seed> = checkpoints().into_iter().map(record).collect();
    seeds.retain(|seed| seed.content.len() <= MAX_SEED);
    seeds
}

/// A doorbell page and a BO for each GPU, and the events page.
fn process(system: &System<UserGpuId>) -> TaskRecord {
    let devices = system.gpus().map(|gpu| TaskDevice {
        user: gpu.id,
        actual: ActualGpuId(gpu.id.get() ^ 1),
        render_minor: gpu.render_minor,
        gfx_target_version: gpu.gfx_target_version,
        num_xcc: gpu.num_xcc,
        compute_partition: Some(ComputePartition::Spx),
        memory_partition: None,
        partition_index: Some(1),
    });
    let vma = |start: u64, kind, gpu, bo| DeviceVma {
        start,
        end: start + 0x2000,
        pgoff: 0x1_0000_0000,
        kind,
        gpu,
        bo,
        prot: 3,
        private: bo.is_none(),
    };
    let mut vmas = vec![vma(0x7f00_0000_0000, VmaKind::Kfd, None, None)];
    for (number, gpu) in (1..).zip(system.gpus()) {
        let start = 0x7f00_0000_0000 + (u64::from(number) << 24);
        vmas.push(vma(start, VmaKind::Kfd, Some(gpu.id), None));
        vmas.push(vma(
            start + 0x10_0000,
            VmaKind::Render,
            Some(gpu.id),
            Some(number),
        ));
    }
    TaskRecord {
        pid: TaskPid(4711),
        kfd_file: FileId(9),
        devices: devices.collect(),
        vmas,
    }
}
