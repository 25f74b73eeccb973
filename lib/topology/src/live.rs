//! The machine at hand: its topology, and what sysfs tells about its cards elsewhere.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use crate::{Node, ReadError, SYSFS_ROOT, System};

/// Where the kernel shows its PCI devices.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";

impl System {
    /// Reads this machine: the topology tree at [`SYSFS_ROOT`] and the partition modes of its cards.
    ///
    /// # Errors
    /// [`ReadError`] for the tree. Modes that cannot be read are left out.
    pub fn read_live() -> Result<Self, ReadError> {
        let mut system = Self::read(Path::new(SYSFS_ROOT))?;
        system.read_partition_modes(Path::new(PCI_DEVICES));
        Ok(system)
    }

    /// Reads `current_compute_partition` and `current_memory_partition` of each GPU's card below
    /// `pci_devices`. Where a file is absent, unreadable or says something else, the mode stays as it is:
    /// most cards have none.
    pub fn read_partition_modes(&mut self, pci_devices: &Path) {
        for node in &mut self.nodes {
            let Node::Gpu(gpu) = node else { continue };
            let places = gpu.pci_addresses().into_iter();
            let mut cards = places.map(|address| pci_devices.join(address));
            let Some(card) = cards.find(|card| card.is_dir()) else {
                continue;
            };
            if let Some(mode) = word(&card.join("current_compute_partition")) {
                gpu.compute_partition = Some(mode);
            }
            if let Some(mode) = word(&card.join("current_memory_partition")) {
                gpu.memory_partition = Some(mode);
            }
        }
    }
}

fn word<T: FromStr>(path: &Path) -> Option<T> {
    let mut text = [0; 32];
    let length = File::open(path).ok()?.read(&mut text).ok()?;
    std::str::from_utf8(text.get(..length)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActualGpuId, ComputePartition, GpuNode, MemoryPartition};

    #[test]
    fn partitions_of_a_card_have_its_modes() {
        let dir = tempfile::tempdir().expect("directory");
        let card = dir.path().join("0001:c1:02.3");
        std::fs::create_dir(&card).expect("directory");
        std::fs::write(card.join("current_compute_partition"), "CPX\n").expect("file");
        std::fs::write(card.join("current_memory_partition"), "NPS4\n").expect("file");
        // The only function of its card, whose partitions show another one each.
        let whole = dir.path().join("0002:c1:02.0");
        std::fs::create_dir(&whole).expect("directory");
        std::fs::write(whole.join("current_compute_partition"), "CPX\n").expect("file");
        std::fs::write(whole.join("current_memory_partition"), "NPS4\n").expect("file");
        let other = dir.path().join("0000:c1:02.3");
        std::fs::create_dir(&other).expect("directory");
        std::fs::write(other.join("current_compute_partition"), "UNKNOWN\n").expect("file");
        let gpu = |node: u32, domain, location_id| {
            Node::Gpu(GpuNode {
                node: crate::NodeId(node),
                id: ActualGpuId(node),
                domain,
                location_id,
                ..GpuNode::default()
            })
        };
        let location = 0xc113;
        let nodes = vec![
            gpu(1, 1, Some(location)),
            gpu(2, 1, Some(location | 7 << 28)),
            gpu(3, 0, Some(location)),
            gpu(4, 0, None),
            gpu(5, 2, Some(location & !7)),
            gpu(6, 2, Some(location & !7 | 5)),
        ];
        let mut system = System::new(nodes, vec![]);
        system.read_partition_modes(dir.path());
        let modes: Vec<_> = system
            .gpus()
            .map(|gpu| (gpu.compute_partition, gpu.memory_partition))
            .collect();
        let divided = (Some(ComputePartition::Cpx), Some(MemoryPartition::Nps4));
        let unknown = (None, None);
        assert_eq!(
            modes,
            [divided, divided, unknown, unknown, divided, divided]
        );
    }
}
