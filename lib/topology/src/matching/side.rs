//! One of the two systems, reduced to what the matching needs and numbered from 0.

use super::bits::Bits;
use crate::{GpuNode, Link, LinkKind, Node, NodeId, System};

/// A link from a GPU to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CpuLink {
    /// Which of [`Side::cpus`].
    pub(crate) cpu: usize,
    pub(crate) kind: LinkKind,
    pub(crate) bidirectional: bool,
}

impl CpuLink {
    /// May `other` stand in for this one? A faster kind or a way back more does no harm.
    pub(crate) fn is_replaced_by(self, other: Self) -> bool {
        let slower = self.kind == LinkKind::Xgmi && other.kind == LinkKind::Pcie;
        let way_back_lost = self.bidirectional && !other.bidirectional;
        !slower && !way_back_lost
    }
}

/// The chosen GPUs of a system, in node order, with their CPUs and hives. GPUs that are not chosen count as
/// absent, as they are for a process that may not open them.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// CPUs that the GPUs have links to, ascending.
    pub(crate) cpus: Vec<NodeId>,
    /// Links of each GPU to CPUs, sorted.
    pub(crate) cpu_links: Vec<Vec<CpuLink>>,
    /// GPUs to which each GPU has a link, whatever its kind.
    pub(crate) peers: Vec<Bits>,
    /// `peers`, and the GPUs that have a link to each GPU: those that notice whether it is chosen.
    pub(crate) neighbours: Vec<Bits>,
    /// PCIe and XGMI links to GPUs: as many as `peers` unless there are two links between a pair.
    pub(crate) gpu_links: Vec<Vec<u8>>,
    /// GPUs that each GPU reaches over XGMI both ways.
    pub(crate) xgmi: Vec<Bits>,
    /// Groups of two or more GPUs that XGMI connects, in order of the first member.
    pub(crate) hives: Vec<Bits>,
    /// Which of `hives` each GPU is in.
    pub(crate) hive_of: Vec<Option<usize>>,
}

impl Side {
    /// `gpus` sorted by node, each below [`Bits::CAPACITY`]; `system` is the one that they are in.
    pub(crate) fn new<Id>(system: &System<Id>, gpus: &[&GpuNode<Id>]) -> Self {
        let count = gpus.len();
        let mut cpu_nodes: Vec<NodeId> = system
            .nodes
            .iter()
            .filter_map(Node::as_cpu)
            .map(|cpu| cpu.node)
            .collect();
        cpu_nodes.sort_unstable();
        let linked = |link: &Link| {
            (link.valid && link.kind.is_kept())
                .then(|| cpu_nodes.binary_search(&link.to).ok())
                .flatten()
        };
        let mut used: Vec<usize> = gpus
            .iter()
            .flat_map(|gpu| gpu.links.iter().filter_map(linked))
            .collect();
        used.sort_unstable();
        used.dedup();
        let mut side = Self {
            cpus: used.iter().map(|index| cpu_nodes[*index]).collect(),
            cpu_links: vec![Vec::new(); count],
            peers: vec![Bits::EMPTY; count],
            neighbours: vec![Bits::EMPTY; count],
            gpu_links: vec![Vec::new(); count],
            xgmi: vec![Bits::EMPTY; count],
            hives: Vec::new(),
            hive_of: vec![None; count],
        };
        for (index, gpu) in gpus.iter().enumerate() {
            for link in gpu
                .links
                .iter()
                .filter(|link| link.valid && link.kind.is_kept())
            {
                if let Some(cpu) = linked(link).and_then(|cpu| used.binary_search(&cpu).ok()) {
                    side.cpu_links[index].push(CpuLink {
                        cpu,
                        kind: link.kind,
                        bidirectional: link.bidirectional,
                    });
                } else if let Ok(peer) = gpus.binary_search_by_key(&link.to, |gpu| gpu.node) {
                    side.peers[index].add(peer);
                    side.neighbours[index].add(peer);
                    side.neighbours[peer].add(index);
                    side.gpu_links[index].extend(u8::try_from(peer));
                    if link.kind == LinkKind::Xgmi && link.bidirectional && peer != index {
                        side.xgmi[index].add(peer);
                    }
                }
            }
            side.cpu_links[index].sort_unstable();
        }
        side.find_hives(Bits::first(count));
        side
    }

    /// GPUs on this side.
    pub(crate) const fn count(&self) -> usize {
        self.cpu_links.len()
    }

    /// The same, with the other GPUs absent, which keep their numbers.
    pub(crate) fn restricted(&self, chosen: Bits) -> Self {
        let mask = |all: &[Bits]| -> Vec<Bits> {
            let links = all.iter().enumerate();
            links
                .map(|(gpu, links)| match chosen.has(gpu) {
                    true => links.and(chosen),
                    false => Bits::EMPTY,
                })
                .collect()
        };
        let mut side = Self {
            peers: mask(&self.peers),
            neighbours: mask(&self.neighbours),
            xgmi: mask(&self.xgmi),
            ..self.clone()
        };
        for links in &mut side.gpu_links {
            links.retain(|peer| chosen.has(usize::from(*peer)));
        }
        side.find_hives(chosen);
        side
    }

    fn find_hives(&mut self, gpus: Bits) {
        self.hives = groups(&self.xgmi, gpus);
        self.hive_of = vec![None; self.count()];
        for (hive, members) in self.hives.iter().enumerate() {
            for member in members.iter() {
                self.hive_of[member] = Some(hive);
            }
        }
    }

    /// Links of a GPU to CPUs and to those GPUs.
    pub(crate) fn valid_links(&self, gpu: usize, chosen: Bits) -> usize {
        let peers = self.gpu_links[gpu]
            .iter()
            .filter(|peer| chosen.has(usize::from(**peer)));
        self.cpu_links[gpu].len() + peers.count()
    }
}

/// Groups of two or more among `members` that the links connect.
pub(crate) fn groups(links: &[Bits], members: Bits) -> Vec<Bits> {
    let mut found = Vec::new();
    let mut left = members;
    while let Some(first) = left.lowest() {
        let mut group = Bits::one(first);
        let mut todo = group;
        while let Some(member) = todo.lowest() {
            todo.remove(member);
            let new = links[member].and(members).without(group);
            group = group.or(new);
            todo = todo.or(new);
        }
        left = left.without(group);
        if group.len() > 1 {
            found.push(group);
        }
    }
    found
}
