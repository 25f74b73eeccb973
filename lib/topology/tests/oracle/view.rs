//! What is left of a machine's links when only some of its GPUs are to be seen.

use rocferry_topology::LinkKind;

use crate::machine::{Gpu, Machine, Wire};

/// An alteration of how links are read, to find out in which cases a rule about them decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twist {
    /// None: the rules as they are.
    Straight,
    /// Hives grow through CPUs.
    ThroughCpus,
    /// Links to nodes that are not there count.
    CountMissing,
    /// GPUs that are not usable are seen all the same.
    SeeUnusable,
    /// Usable GPUs that were not chosen are seen all the same.
    SeeUnchosen,
}

/// A link of a GPU to a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuLink {
    pub(crate) kind: LinkKind,
    pub(crate) cpu: u32,
    pub(crate) two_way: bool,
}

/// What one GPU has.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) valid_links: usize,
    pub(crate) cpus: Vec<CpuLink>,
    /// The number of its hive.
    pub(crate) hive: Option<usize>,
}

/// What the GPUs `of` the machine have when only those `of` them are seen that are in `visible`, and all CPUs.
pub(crate) fn view(machine: &Machine, visible: &[&Gpu], of: &[&Gpu], twist: Twist) -> Vec<Seen> {
    let nodes: Vec<(u32, &[Wire])> = machine
        .cpus
        .iter()
        .map(|cpu| (cpu.node, cpu.links.as_slice()))
        .chain(visible.iter().map(|gpu| (gpu.node, gpu.links.as_slice())))
        .collect();
    let links_of = |node: u32| nodes.iter().find(|n| n.0 == node).map(|n| n.1);
    let is_cpu = |node: u32| machine.cpus.iter().any(|cpu| cpu.node == node);
    let two_way =
        |from: u32, (kind, to): Wire| links_of(to).is_some_and(|back| back.contains(&(kind, from)));

    // Every node begins with a hive of its own; two-way XGMI makes two hives one, until nothing changes.
    let mut hive: Vec<usize> = (0..nodes.len()).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (a, (from, links)) in nodes.iter().enumerate() {
            for (b, (to, _)) in nodes.iter().enumerate() {
                let between_gpus = !is_cpu(*from) && !is_cpu(*to);
                if (between_gpus || twist == Twist::ThroughCpus)
                    && hive[a] != hive[b]
                    && links.contains(&(LinkKind::Xgmi, *to))
                    && two_way(*from, (LinkKind::Xgmi, *to))
                {
                    let (keep, gone) = (hive[a].min(hive[b]), hive[a].max(hive[b]));
                    hive.iter_mut()
                        .filter(|h| **h == gone)
                        .for_each(|h| *h = keep);
                    changed = true;
                }
            }
        }
    }

    let seen = |gpu: &&Gpu| {
        let kept = |wire: &&Wire| matches!(wire.0, LinkKind::Pcie | LinkKind::Xgmi);
        let valid = |wire: &&Wire| links_of(wire.1).is_some() || twist == Twist::CountMissing;
        let at = nodes.iter().position(|n| n.0 == gpu.node);
        let of_hive = at.map(|at| hive[at]);
        let members = hive.iter().filter(|h| Some(**h) == of_hive).count();
        Seen {
            valid_links: gpu.links.iter().filter(kept).filter(valid).count(),
            cpus: gpu
                .links
                .iter()
                .filter(kept)
                .filter(|wire| is_cpu(wire.1))
                .map(|wire| CpuLink {
                    kind: wire.0,
                    cpu: wire.1,
                    two_way: two_way(gpu.node, *wire),
                })
                .collect(),
            hive: of_hive.filter(|_| members > 1),
        }
    };
    of.iter().map(seen).collect()
}
