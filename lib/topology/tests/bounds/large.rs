//! Machines with many GPUs.

use rocferry_topology::{GpuProperties, LinkKind};

use crate::machine::{Cpu, Gpu, Machine};
use crate::random::Random;

/// What distinguishes one GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chip {
    pub(crate) cpu: u32,
    pub(crate) hive: Option<u32>,
    /// Must be the same.
    pub(crate) device: u32,
    /// Must not be less, both of them.
    pub(crate) firmware: (u32, u32),
    /// The link to the CPU: both ways, XGMI.
    pub(crate) two_way: bool,
    pub(crate) xgmi: bool,
}

impl Chip {
    /// Whether this one by itself may become the other, of whatever kind its CPU link is.
    pub(crate) fn may_become(&self, other: &Self) -> bool {
        self.device == other.device
            && self.firmware.0 <= other.firmware.0
            && self.firmware.1 <= other.firmware.1
            && self.two_way <= other.two_way
            && self.xgmi <= other.xgmi
    }
}

/// How the members of a hive are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mesh {
    /// Each with each.
    Full,
    /// Each with the next.
    Ring,
}

/// A machine of these GPUs, in this order, with so many CPUs.
pub(crate) fn build(chips: &[Chip], cpus: u32, mesh: Mesh) -> Machine {
    let mut machine = Machine::default();
    machine.cpus.extend((0..cpus).map(|node| Cpu {
        node,
        links: Vec::new(),
    }));
    for (node, chip) in (cpus..).zip(chips) {
        machine.gpus.push(Gpu {
            node,
            id: 0x4000 + node,
            properties: GpuProperties {
                device_id: chip.device,
                fw_version: chip.firmware.0,
                sdma_fw_version: chip.firmware.1,
                ..GpuProperties::default()
            },
            ..Gpu::default()
        });
    }
    for (node, chip) in (cpus..).zip(chips) {
        let kind = if chip.xgmi {
            LinkKind::Xgmi
        } else {
            LinkKind::Pcie
        };
        machine.wire(node, kind, chip.cpu);
        if chip.two_way {
            machine.wire(chip.cpu, kind, node);
        }
        let members: Vec<u32> = (cpus..)
            .zip(chips)
            .filter(|(_, other)| chip.hive.is_some() && other.hive == chip.hive)
            .map(|(node, _)| node)
            .collect();
        let at = members.iter().position(|member| *member == node);
        for (other, member) in members.iter().enumerate() {
            let next = at.is_some_and(|at| (at + 1) % members.len() == other);
            if mesh == Mesh::Full || next {
                machine.join(node, LinkKind::Xgmi, *member);
            }
        }
    }
    machine
}

/// The same GPUs in another order, on other CPUs and in hives of other numbers.
pub(crate) fn permuted(chips: &[Chip], cpus: u32, random: &mut Random) -> Vec<Chip> {
    let mut numbers: Vec<u32> = (0..cpus).collect();
    random.shuffle(&mut numbers);
    let mut chips = chips.to_vec();
    for chip in &mut chips {
        chip.cpu = numbers[chip.cpu as usize];
    }
    random.shuffle(&mut chips);
    chips
}

/// Gives the GPUs the ids of others among them.
pub(crate) fn exchange_ids(machine: &mut Machine, random: &mut Random) {
    let mut ids = machine.ids();
    random.shuffle(&mut ids);
    for (gpu, id) in machine.gpus.iter_mut().zip(ids) {
        gpu.id = id;
    }
}

/// As [`permuted`], with the members of each hive in the order that they had: whole hives of this size change
/// places.
pub(crate) fn permuted_rings(
    chips: &[Chip],
    cpus: u32,
    size: usize,
    random: &mut Random,
) -> Vec<Chip> {
    let mut rings: Vec<&[Chip]> = chips.chunks(size).collect();
    random.shuffle(&mut rings);
    let mut numbers: Vec<u32> = (0..cpus).collect();
    random.shuffle(&mut numbers);
    let mut chips = rings.concat();
    for chip in &mut chips {
        chip.cpu = numbers[chip.cpu as usize];
    }
    chips
}
