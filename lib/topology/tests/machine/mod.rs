//! A machine in the plainest form that says everything: what the tests build, change and reason about.
//!
//! Links know nothing of validity or direction here. Whoever needs that works it out from the lists.

use rocferry_topology::{
    ComputePartition, CpuNode, GpuNode, GpuProperties, Link, LinkKind, MemoryPartition, Node,
    NodeId, System,
};

/// CPUs and GPUs of one machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) gpus: Vec<Gpu>,
    /// Nodes that exist and cannot be read.
    pub(crate) masked: Vec<u32>,
    pub(crate) xnack: Option<bool>,
}

/// A link away from its owner: what it runs over, and the number of the node at the far end.
pub(crate) type Wire = (LinkKind, u32);

#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) node: u32,
    pub(crate) links: Vec<Wire>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Gpu {
    pub(crate) node: u32,
    pub(crate) id: u32,
    pub(crate) properties: GpuProperties,
    pub(crate) gfx: Option<u32>,
    pub(crate) xcc: Option<u32>,
    pub(crate) compute: Option<ComputePartition>,
    pub(crate) memory: Option<MemoryPartition>,
    pub(crate) location: Option<u32>,
    /// In a checkpoint: the partition that it must be again.
    pub(crate) sdma: Option<u32>,
    pub(crate) links: Vec<Wire>,
}

impl Machine {
    /// The same as the library's model, CPUs first.
    pub(crate) fn system<Id: From<u32> + Default>(&self) -> System<Id> {
        let wires = |wires: &[Wire]| -> Vec<Link> {
            let link = |&(kind, to): &Wire| Link::new(kind, NodeId(to));
            wires.iter().map(link).collect()
        };
        let cpus = self.cpus.iter().map(|cpu| {
            Node::Cpu(CpuNode {
                node: NodeId(cpu.node),
                cpu_cores: 8,
                links: wires(&cpu.links),
            })
        });
        let gpus = self.gpus.iter().map(|gpu| {
            Node::Gpu(GpuNode {
                node: NodeId(gpu.node),
                id: Id::from(gpu.id),
                properties: gpu.properties.clone(),
                gfx_target_version: gpu.gfx,
                num_xcc: gpu.xcc,
                compute_partition: gpu.compute,
                memory_partition: gpu.memory,
                location_id: gpu.location,
                links: wires(&gpu.links),
                ..GpuNode::default()
            })
        });
        let masked = self.masked.iter().copied().map(NodeId).collect();
        let sdma = self
            .gpus
            .iter()
            .filter_map(|gpu| Some((Id::from(gpu.id), gpu.sdma?)));
        System {
            xnack: self.xnack,
            sdma_partitions: sdma.collect(),
            ..System::new(cpus.chain(gpus).collect(), masked)
        }
    }

    /// The links that start at this node.
    pub(crate) fn links_mut(&mut self, node: u32) -> Option<&mut Vec<Wire>> {
        let cpu = self.cpus.iter_mut().find(|cpu| cpu.node == node);
        if let Some(cpu) = cpu {
            return Some(&mut cpu.links);
        }
        let gpu = self.gpus.iter_mut().find(|gpu| gpu.node == node);
        gpu.map(|gpu| &mut gpu.links)
    }

    /// Adds a link one way, once; nothing when there is no such node, and none from a node to itself.
    pub(crate) fn wire(&mut self, from: u32, kind: LinkKind, to: u32) {
        if from != to
            && let Some(links) = self.links_mut(from)
            && !links.contains(&(kind, to))
        {
            links.push((kind, to));
        }
    }

    /// Adds a link both ways.
    pub(crate) fn join(&mut self, a: u32, kind: LinkKind, b: u32) {
        self.wire(a, kind, b);
        self.wire(b, kind, a);
    }

    /// The ids of all GPUs.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.gpus.iter().map(|gpu| gpu.id).collect()
    }
}
