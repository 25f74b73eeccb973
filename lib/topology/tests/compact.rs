//! The compact form of real machines.

use rocferry_topology::{CompactTopology, Node, System};

mod trees;

/// What lies below it is stored as a Kubernetes object, of which etcd takes 1.5 MiB.
const AIM: usize = 16 * 1024;

#[test]
fn real_machines_come_back_and_are_small() {
    for (name, files) in trees::all() {
        let system = System::from_files(&files).expect("tree");
        let compact = CompactTopology::from(&system);
        let text = serde_json::to_string(&compact).expect("JSON");
        println!(
            "{name}: {} GPUs, {} models, {} bytes",
            compact.gpus.len(),
            compact.models.len(),
            text.len()
        );
        assert!(text.len() < AIM, "{name}: {} bytes", text.len());
        let read: CompactTopology = serde_json::from_str(&text).expect("its own form");
        let back = System::try_from(&read).expect("its own form");
        assert_eq!(by_links(back), by_links(system), "{name}");
    }
}

/// The kernel lists links in the order of its tables, the compact form by kind.
fn by_links(mut system: System) -> System {
    for node in &mut system.nodes {
        let links = match node {
            Node::Cpu(cpu) => &mut cpu.links,
            Node::Gpu(gpu) => &mut gpu.links,
        };
        links.sort_by_key(|link| (link.kind, link.to));
    }
    system
}

/// A GPU of each kind differs from its neighbours in names and links alone.
#[test]
fn equal_gpus_share_a_model() {
    for (name, models) in [
        ("mi300x-cpx", 1),
        ("mi210-pair", 1),
        ("workstation-mixed", 3),
    ] {
        let system = System::from_files(&trees::tree(name)).expect("tree");
        assert_eq!(
            CompactTopology::from(&system).models.len(),
            models,
            "{name}"
        );
    }
}
