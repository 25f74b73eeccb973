//! Links: from CPUs to GPUs, in hives, between GPUs.

use std::collections::BTreeSet;

use rocferry_topology::{GpuNode, LinkKind, NodeId, System};

use crate::topology::ranges::ranges;

/// `GPU 2`, `GPUs 2-5`.
pub(super) fn gpu_names(nodes: &[u32]) -> String {
    let word = if nodes.len() == 1 { "GPU" } else { "GPUs" };
    format!("{word} {}", ranges(nodes.iter().copied()))
}

/// Lines of a tree below a headline.
fn tree(headline: String, branches: Vec<String>) -> Vec<String> {
    let last = branches.len().saturating_sub(1);
    let branches = branches.into_iter().enumerate();
    let branches = branches.map(|(index, branch)| {
        let arm = if index == last {
            "└──"
        } else {
            "├──"
        };
        format!("{arm} {branch}")
    });
    std::iter::once(headline).chain(branches).collect()
}

/// Each CPU with its GPUs and the CPUs that it reaches.
pub(super) fn cpus(system: &System) -> Vec<String> {
    let mut lines = Vec::new();
    let mut hanging: BTreeSet<u32> = BTreeSet::new();
    for cpu in system.cpus() {
        let mut branches = Vec::new();
        for kind in [LinkKind::Pcie, LinkKind::Xgmi] {
            let from_gpus: BTreeSet<u32> = system
                .gpus()
                .filter(|gpu| links_to(gpu, kind, cpu.node))
                .map(|gpu| gpu.node.get())
                .collect();
            let to_gpus: BTreeSet<u32> = cpu
                .links
                .iter()
                .filter(|link| link.kind == kind)
                .filter(|link| is_gpu(system, link.to))
                .map(|link| link.to.get())
                .collect();
            hanging.extend(&from_gpus);
            let ways = [
                (&from_gpus & &to_gpus, "both ways"),
                (&from_gpus - &to_gpus, "only from the GPU to the CPU"),
                (&to_gpus - &from_gpus, "only from the CPU to the GPU"),
            ];
            for (gpus, way) in ways.into_iter().filter(|(gpus, _)| !gpus.is_empty()) {
                let gpus: Vec<u32> = gpus.into_iter().collect();
                branches.push(format!("{} over {kind}, {way}", gpu_names(&gpus)));
            }
        }
        branches.extend(peers_of_cpu(system, cpu.node));
        let cores = match cpu.cpu_cores {
            1 => "1 core".to_owned(),
            cores => format!("{cores} cores"),
        };
        lines.extend(tree(format!("CPU {}, {cores}", cpu.node), branches));
    }
    let alone: Vec<u32> = system
        .gpus()
        .map(|gpu| gpu.node.get())
        .filter(|node| !hanging.contains(node))
        .collect();
    if !alone.is_empty() {
        lines.push(format!("{} without a CPU", gpu_names(&alone)));
    }
    lines
}

fn peers_of_cpu(system: &System, cpu: NodeId) -> Vec<String> {
    let links = system
        .node(cpu)
        .map(|node| node.links())
        .unwrap_or_default();
    let mut kinds: Vec<LinkKind> = links.iter().map(|link| link.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut branches = Vec::new();
    for kind in kinds {
        let to: BTreeSet<u32> = links
            .iter()
            .filter(|link| link.kind == kind)
            .filter(|link| {
                system
                    .node(link.to)
                    .is_some_and(|node| node.as_cpu().is_some())
            })
            .map(|link| link.to.get())
            .collect();
        if !to.is_empty() {
            let word = if to.len() == 1 { "CPU" } else { "CPUs" };
            branches.push(format!("{word} {} over {}", ranges(to), kind_name(kind)));
        }
    }
    branches
}

/// The kernel's `CRAT_IOLINK_TYPE_*` (6.12), as far as CPUs have them.
fn kind_name(kind: LinkKind) -> String {
    match kind.raw() {
        1 => "HyperTransport".to_owned(),
        5 => "QPI".to_owned(),
        _ => kind.to_string(),
    }
}

/// Each hive, and who is linked to whom where that is not each to each.
pub(super) fn hives(system: &System) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, hive) in system.hives().into_iter().enumerate() {
        let members: BTreeSet<u32> = hive.iter().map(|node| node.get()).collect();
        let names: Vec<u32> = members.iter().copied().collect();
        let headline = format!("Hive {}: {} over XGMI", index + 1, gpu_names(&names));
        let peers = peers(system, LinkKind::Xgmi, true);
        let peers: Vec<Peers> = peers
            .into_iter()
            .filter(|peers| members.contains(&peers.gpu))
            .collect();
        let branches = branches(peers);
        match &branches[..] {
            [only] if *only == each_other(&names) => {
                lines.push(format!("{headline}, each linked to each other"));
            }
            _ => lines.extend(tree(headline + ", not each to each", branches)),
        }
    }
    lines
}

/// Links between GPUs that make no hive.
pub(super) fn between_gpus(system: &System) -> Vec<String> {
    let mut lines = Vec::new();
    for (kind, both_ways, headline) in [
        (LinkKind::Pcie, true, "PCIe between GPUs, both ways"),
        (LinkKind::Pcie, false, "PCIe between GPUs, one way"),
        (LinkKind::Xgmi, false, "XGMI between GPUs, one way: no hive"),
    ] {
        let branches = branches(peers(system, kind, both_ways));
        if !branches.is_empty() {
            lines.extend(tree(headline.to_owned(), branches));
        }
    }
    lines
}

/// A GPU and those that it has links to.
struct Peers {
    gpu: u32,
    to: BTreeSet<u32>,
}

fn peers(system: &System, kind: LinkKind, both_ways: bool) -> Vec<Peers> {
    let mut found: Vec<Peers> = system
        .gpus()
        .map(|gpu| Peers {
            gpu: gpu.node.get(),
            to: gpu
                .links
                .iter()
                .filter(|link| link.kind == kind && link.bidirectional == both_ways)
                .filter(|link| is_gpu(system, link.to))
                .map(|link| link.to.get())
                .collect(),
        })
        .filter(|peers| !peers.to.is_empty())
        .collect();
    found.sort_by_key(|peers| peers.gpu);
    found
}

/// One line for GPUs that are linked each to each other, or all to the same others.
fn branches(peers: Vec<Peers>) -> Vec<String> {
    let mut groups: Vec<(BTreeSet<u32>, Vec<u32>)> = Vec::new();
    let mut rest = Vec::new();
    for peer in peers {
        let mut clique = peer.to.clone();
        clique.insert(peer.gpu);
        match groups.iter_mut().find(|group| group.0 == clique) {
            Some(group) => group.1.push(peer.gpu),
            None => groups.push((clique, vec![peer.gpu])),
        }
        rest.push(peer);
    }
    let mut lines: Vec<(u32, String)> = Vec::new();
    groups.retain(|(clique, gpus)| clique.len() == gpus.len());
    for (_, gpus) in &groups {
        lines.push((gpus[0], each_other(gpus)));
    }
    let mut fans: Vec<(BTreeSet<u32>, Vec<u32>)> = Vec::new();
    for peer in rest {
        if groups
            .iter()
            .any(|(clique, _)| clique.contains(&peer.gpu) && clique.len() == peer.to.len() + 1)
        {
            continue;
        }
        match fans.iter_mut().find(|fan| fan.0 == peer.to) {
            Some(fan) => fan.1.push(peer.gpu),
            None => fans.push((peer.to, vec![peer.gpu])),
        }
    }
    for (to, gpus) in fans {
        let to: Vec<u32> = to.into_iter().collect();
        lines.push((
            gpus[0],
            format!("{} to {}", gpu_names(&gpus), gpu_names(&to)),
        ));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

fn each_other(gpus: &[u32]) -> String {
    format!("{} each to each other", gpu_names(gpus))
}

fn links_to<Id>(gpu: &GpuNode<Id>, kind: LinkKind, to: NodeId) -> bool {
    gpu.links
        .iter()
        .any(|link| link.kind == kind && link.to == to)
}

fn is_gpu(system: &System, node: NodeId) -> bool {
    system
        .node(node)
        .is_some_and(|node| node.as_gpu().is_some())
}
