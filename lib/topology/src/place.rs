//! Where a GPU is: on which card, and which partition of it.
//!
//! `location_id` holds bus, device and function as PCI does. Where a card is divided, the driver adds the number
//! of the partition: to the function (`kfd_topology_add_device`, kernel 6.12), in other builds of it as the top
//! four bits.

use crate::{ComputePartition, GpuNode, System};

impl<Id> GpuNode<Id> {
    /// Which partition of its card it is, from 0; 0 for a card that is not divided. `None`: no `location_id`.
    ///
    /// A virtual function of a whole card shows its function here.
    #[must_use]
    pub const fn partition_index(&self) -> Option<u32> {
        match self.location_id {
            None => None,
            Some(location) if location >> 28 != 0 => Some(location >> 28),
            Some(location) => Some(location & 7),
        }
    }

    /// Names that the card's folder may have below `/sys/bus/pci/devices`, the likelier one first: only one
    /// function of it is a PCI device.
    pub(crate) fn pci_addresses(&self) -> Vec<String> {
        let Some(location) = self.location_id else {
            return Vec::new();
        };
        let (domain, bus, device) = (self.domain, location >> 8 & 0xff, location >> 3 & 0x1f);
        let mut functions = vec![location & 7, 0];
        functions.dedup();
        functions
            .into_iter()
            .map(|function| format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
            .collect()
    }
}

impl<Id: PartialEq> System<Id> {
    /// Is this GPU of the system a partition of a card? By the card's mode; where that is not known, by other
    /// GPUs at the same place.
    #[must_use]
    pub fn is_partition(&self, gpu: &GpuNode<Id>) -> bool {
        let place = |gpu: &GpuNode<Id>| Some((gpu.domain, gpu.location_id? & 0xfff8));
        match gpu.compute_partition {
            Some(mode) => mode != ComputePartition::Spx,
            None => self.gpus().any(|other| {
                other.id != gpu.id && place(other).is_some() && place(other) == place(gpu)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActualGpuId, Node, NodeId};

    fn gpu(id: u32, location_id: u32) -> GpuNode {
        GpuNode {
            node: NodeId(id),
            id: ActualGpuId(id),
            location_id: Some(location_id),
            ..GpuNode::default()
        }
    }

    #[test]
    fn both_notations_of_a_partition_are_read() {
        for (location, index) in [
            (0x500, 0),
            (0x503, 3),
            (0x507, 7),
            (0x3000_0500, 3),
            (0xf000_0500, 15),
            (0x5f8, 0),
        ] {
            assert_eq!(
                gpu(1, location).partition_index(),
                Some(index),
                "{location:x}"
            );
        }
        assert_eq!(GpuNode::<ActualGpuId>::default().partition_index(), None);
    }

    #[test]
    fn a_partition_has_others_beside_it_or_a_mode_that_says_so() {
        let with_mode = |id, location, mode| GpuNode {
            compute_partition: Some(mode),
            ..gpu(id, location)
        };
        let gpus = [
            (gpu(1, 0x500), true),
            (gpu(2, 0x501), true),
            // Alone; another domain; another device; alone, but of a card in that mode; two functions of
            // whole cards.
            (gpu(3, 0x600), false),
            (
                GpuNode {
                    domain: 1,
                    ..gpu(4, 0x600)
                },
                false,
            ),
            (gpu(5, 0x608), false),
            (with_mode(6, 0x701, ComputePartition::Cpx), true),
            (with_mode(7, 0x800, ComputePartition::Spx), false),
            (with_mode(8, 0x801, ComputePartition::Spx), false),
            (
                GpuNode {
                    location_id: None,
                    ..gpu(9, 0)
                },
                false,
            ),
            (
                GpuNode {
                    location_id: None,
                    ..gpu(10, 0)
                },
                false,
            ),
        ];
        let nodes = gpus.iter().map(|(gpu, _)| Node::Gpu(gpu.clone()));
        let system = System::new(nodes.collect(), vec![]);
        for (gpu, divided) in gpus {
            assert_eq!(system.is_partition(&gpu), divided, "{}", gpu.id);
        }
    }
}
