//! A whole system: its nodes, with the links between them resolved.

use std::collections::{HashMap, HashSet};

use crate::{ActualGpuId, CpuNode, GpuNode, LinkKind, Node, NodeId, RenderMinor};

/// CPUs and GPUs of one machine, or those that an image describes.
///
/// The nodes keep the order in which they were given ([`System::read`] sorts by number). After changing
/// nodes or links, build a new system: [`System::new`] is what resolves the links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System<Id = ActualGpuId> {
    /// The nodes that could be read.
    pub nodes: Vec<Node<Id>>,
    /// Nodes that exist but may not be read: GPUs which the device cgroup hides.
    pub masked: Vec<NodeId>,
    /// In a checkpoint: the process runs with XNACK (retry of page faults). On a live system: a process may
    /// turn it on. `None`: not recorded. Not in the tree that [`System::read`] reads; the kernel tells it by
    /// the ioctl `SET_XNACK_MODE`.
    pub xnack: Option<bool>,
    /// In a checkpoint: the GPUs on which the process has SDMA queues, where these are partitions of a card,
    /// with their numbers on it ([`GpuNode::partition_index`]). The kernel takes such a queue back only on a
    /// partition with the same number. Empty on a live system.
    pub sdma_partitions: Vec<(Id, u32)>,
}

impl<Id> Default for System<Id> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            masked: Vec::new(),
            xnack: None,
            sdma_partitions: Vec::new(),
        }
    }
}

impl<Id> System<Id> {
    /// Takes the nodes and works out which links are valid and which have a way back (any earlier
    /// `valid` and `bidirectional` is overwritten). A link to a node that is not there stays, marked
    /// invalid. Where two nodes share a number, the callers that read untrusted data refuse it.
    #[must_use]
    pub fn new(mut nodes: Vec<Node<Id>>, masked: Vec<NodeId>) -> Self {
        let present: HashSet<NodeId> = nodes.iter().map(Node::id).collect();
        let directed: HashSet<(NodeId, NodeId, LinkKind)> = nodes
            .iter()
            .flat_map(|node| {
                node.links()
                    .iter()
                    .map(|link| (node.id(), link.to, link.kind))
            })
            .collect();
        for node in &mut nodes {
            let from = node.id();
            for link in node.links_mut() {
                link.valid = present.contains(&link.to);
                link.bidirectional = link.valid && directed.contains(&(link.to, from, link.kind));
            }
        }
        Self {
            nodes,
            masked,
            xnack: None,
            sdma_partitions: Vec::new(),
        }
    }

    /// The GPUs, in order.
    pub fn gpus(&self) -> impl Iterator<Item = &GpuNode<Id>> {
        self.nodes.iter().filter_map(Node::as_gpu)
    }

    /// The CPUs, in order.
    pub fn cpus(&self) -> impl Iterator<Item = &CpuNode> {
        self.nodes.iter().filter_map(Node::as_cpu)
    }

    /// The node with this number.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node<Id>> {
        self.nodes.iter().find(|node| node.id() == id)
    }

    /// The GPU behind this render node.
    #[must_use]
    pub fn gpu_by_minor(&self, minor: RenderMinor) -> Option<&GpuNode<Id>> {
        self.gpus().find(|gpu| gpu.render_minor == minor)
    }

    /// Hives: groups of GPUs that XGMI links in both directions connect, each of two or more, in the
    /// order of their first member, members in node order.
    ///
    /// Only links between GPUs count. On machines whose GPUs reach the CPU over XGMI as well, following
    /// those links would melt all hives into one. The kernel's `hive_id` is not used, since an image
    /// must be grouped by the same rule whatever wrote it.
    #[must_use]
    pub fn hives(&self) -> Vec<Vec<NodeId>> {
        let links: HashMap<NodeId, Vec<NodeId>> = self
            .gpus()
            .map(|gpu| {
                let peers = gpu
                    .links
                    .iter()
                    .filter(|link| link.kind == LinkKind::Xgmi && link.bidirectional)
                    .map(|link| link.to)
                    .collect();
                (gpu.node, peers)
            })
            .collect();
        let mut seen = HashSet::new();
        let mut hives = Vec::new();
        for first in self.gpus().map(|gpu| gpu.node) {
            if !seen.insert(first) {
                continue;
            }
            let mut members: HashSet<NodeId> = HashSet::from([first]);
            let mut todo = vec![first];
            while let Some(node) = todo.pop() {
                for peer in links.get(&node).into_iter().flatten() {
                    // CPUs are no keys of `links`, so a link to one ends here.
                    if links.contains_key(peer) && members.insert(*peer) {
                        todo.push(*peer);
                    }
                }
            }
            seen.extend(&members);
            if members.len() > 1 {
                let ordered = self
                    .gpus()
                    .map(|gpu| gpu.node)
                    .filter(|n| members.contains(n));
                hives.push(ordered.collect());
            }
        }
        hives
    }

    /// The same system with every GPU under the id that `rename` gives it, without the GPUs for which
    /// that is `None`. CPUs stay; links to GPUs that went become invalid.
    ///
    /// This is how a live system becomes the one that an image records: only the GPUs of the process,
    /// under their user ids.
    #[must_use]
    pub fn rename<New>(&self, mut rename: impl FnMut(&GpuNode<Id>) -> Option<New>) -> System<New>
    where
        Id: Clone + PartialEq,
        New: Clone,
    {
        let mut sdma_partitions = Vec::new();
        let nodes = self.nodes.iter().filter_map(|node| match node {
            Node::Cpu(cpu) => Some(Node::Cpu(cpu.clone())),
            Node::Gpu(gpu) => {
                let id = rename(gpu)?;
                let known = self.sdma_partitions.iter().find(|known| known.0 == gpu.id);
                sdma_partitions.extend(known.map(|known| (id.clone(), known.1)));
                Some(Node::Gpu(gpu.clone().with_id(id)))
            }
        });
        let nodes = nodes.collect();
        System {
            xnack: self.xnack,
            sdma_partitions,
            ..System::new(nodes, self.masked.clone())
        }
    }
}

impl<Id: PartialEq + Copy> System<Id> {
    /// The GPU with this id.
    #[must_use]
    pub fn gpu(&self, id: Id) -> Option<&GpuNode<Id>> {
        self.gpus().find(|gpu| gpu.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, UserGpuId};

    fn cpu(node: u32, links: &[(LinkKind, u32)]) -> Node {
        Node::Cpu(CpuNode {
            node: NodeId(node),
            cpu_cores: 8,
            links: make(links),
        })
    }

    fn gpu(node: u32, links: &[(LinkKind, u32)]) -> Node {
        Node::Gpu(GpuNode {
            node: NodeId(node),
            id: ActualGpuId(0x1000 + node),
            links: make(links),
            ..GpuNode::default()
        })
    }

    fn make(links: &[(LinkKind, u32)]) -> Vec<Link> {
        links
            .iter()
            .map(|(kind, to)| Link::new(*kind, NodeId(*to)))
            .collect()
    }

    #[test]
    fn links_are_resolved_by_kind_and_direction() {
        let system = System::new(
            vec![
                cpu(0, &[(LinkKind::Pcie, 1)]),
                gpu(
                    1,
                    &[
                        (LinkKind::Pcie, 0),
                        (LinkKind::Xgmi, 2),
                        (LinkKind::Pcie, 9),
                    ],
                ),
                gpu(2, &[(LinkKind::Pcie, 0), (LinkKind::Pcie, 1)]),
            ],
            vec![],
        );
        let flags = |id: u32| -> Vec<(bool, bool)> {
            let node = system.node(NodeId(id)).expect("node");
            node.links()
                .iter()
                .map(|l| (l.valid, l.bidirectional))
                .collect()
        };
        assert_eq!(flags(0), [(true, true)]);
        // XGMI one way and PCIe the other way are no pair; node 9 is not there.
        assert_eq!(flags(1), [(true, true), (true, false), (false, false)]);
        assert_eq!(flags(2), [(true, false), (true, false)]);
        assert_eq!(
            system
                .gpu(ActualGpuId(0x1001))
                .map(GpuNode::valid_link_count),
            Some(2)
        );
    }

    #[test]
    fn hives_never_grow_through_cpus() {
        use LinkKind::Xgmi;
        // Two pairs, all four linked to CPU 0 over XGMI in both directions.
        let system = System::new(
            vec![
                cpu(0, &[(Xgmi, 1), (Xgmi, 2), (Xgmi, 3), (Xgmi, 4), (Xgmi, 5)]),
                gpu(1, &[(Xgmi, 0), (Xgmi, 4)]),
                gpu(2, &[(Xgmi, 0), (Xgmi, 3)]),
                gpu(3, &[(Xgmi, 0), (Xgmi, 2)]),
                gpu(4, &[(Xgmi, 0), (Xgmi, 1)]),
                gpu(5, &[(Xgmi, 0), (Xgmi, 1)]),
            ],
            vec![],
        );
        let expected = vec![vec![NodeId(1), NodeId(4)], vec![NodeId(2), NodeId(3)]];
        assert_eq!(system.hives(), expected);
    }

    #[test]
    fn rename_drops_foreign_gpus_and_the_links_to_them() {
        use LinkKind::Pcie;
        let system = System::new(
            vec![
                cpu(0, &[(Pcie, 1), (Pcie, 2)]),
                gpu(1, &[(Pcie, 0), (Pcie, 2)]),
                gpu(2, &[(Pcie, 0), (Pcie, 1)]),
            ],
            vec![],
        );
        let owned = system.rename(|gpu| (gpu.node == NodeId(2)).then_some(UserGpuId(0x77)));
        assert_eq!(owned.gpus().count(), 1);
        assert_eq!(owned.cpus().count(), 1);
        let gpu = owned.gpu(UserGpuId(0x77)).expect("kept");
        assert_eq!(
            gpu.links.iter().map(|l| l.valid).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(gpu.valid_link_count(), 1);
    }
}
