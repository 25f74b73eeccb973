//! The small systems of the case sheet.

use rocferry_topology::{GpuProperties, LinkKind};

use crate::machine::{Cpu, Gpu, Machine};

/// How a GPU is linked to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// PCIe, and the CPU reaches the GPU as well.
    Both(u32),
    /// PCIe from the GPU only.
    One(u32),
    /// XGMI both ways.
    Xgmi(u32),
}

/// One GPU: its device id, hive digit and CPU.
pub(crate) type Spec = (u32, u32, Way);

/// CPUs are nodes from 0, GPUs follow. The id of GPU n in hive h is `base + 0xhn`. All properties but the
/// device id are 0. `hives` says whether those of one hive digit are linked by XGMI.
pub(crate) fn system(cpus: u32, base: u32, hives: bool, gpus: &[Spec]) -> Machine {
    let mut machine = Machine::default();
    machine.cpus.extend((0..cpus).map(|node| Cpu {
        node,
        links: Vec::new(),
    }));
    for (number, (device_id, hive, _)) in (0..).zip(gpus) {
        machine.gpus.push(Gpu {
            node: cpus + number,
            id: base + 0x10 * hive + number,
            properties: GpuProperties {
                device_id: *device_id,
                ..GpuProperties::default()
            },
            ..Gpu::default()
        });
    }
    for (a, (_, hive, way)) in (cpus..).zip(gpus) {
        match *way {
            Way::Both(cpu) => machine.join(a, LinkKind::Pcie, cpu),
            Way::One(cpu) => machine.wire(a, LinkKind::Pcie, cpu),
            Way::Xgmi(cpu) => machine.join(a, LinkKind::Xgmi, cpu),
        }
        for (b, (_, other, _)) in (cpus..).zip(gpus) {
            if hives && hive == other {
                machine.wire(a, LinkKind::Xgmi, b);
            }
        }
    }
    machine
}

/// Adds PCIe links, one way, from each of these GPUs to each of those, by their numbers.
pub(crate) fn peers(machine: &mut Machine, from: &[usize], to: &[usize]) {
    let nodes: Vec<u32> = machine.gpus.iter().map(|gpu| gpu.node).collect();
    for from in from {
        for to in to {
            machine.wire(nodes[*from], LinkKind::Pcie, nodes[*to]);
        }
    }
}
