//! What each machine is.

use rocferry_topology::{GpuNode, Link, LinkKind, Node, NodeId, RenderMinor, System};

use crate::{read, trees};

/// What is to be read.
struct Machine {
    name: &'static str,
    /// Cores of each CPU node.
    cpus: &'static [u32],
    /// Members of each hive.
    hives: &'static [&'static [u32]],
    /// GPUs that are alike, in node order.
    gpus: &'static [Alike],
}

/// GPUs with the same properties.
struct Alike {
    count: usize,
    device: u32,
    /// `gfx_target_version`, `num_xcc`.
    chip: (Option<u32>, Option<u32>),
    simd: u32,
    /// Public, bytes.
    vram: Option<(bool, u64)>,
    /// Links to CPUs and to GPUs, of one GPU.
    links: (usize, usize),
    cpu_link: LinkKind,
}

const MI210: Alike = Alike {
    count: 0,
    device: 0x740f,
    chip: (Some(90010), Some(1)),
    simd: 416,
    vram: Some((true, 68_702_699_520)),
    links: (1, 0),
    cpu_link: LinkKind::Pcie,
};
const MI300X: Alike = Alike {
    device: 0x74a1,
    chip: (Some(90402), Some(8)),
    simd: 1216,
    vram: Some((true, 206_141_652_992)),
    ..MI210
};
/// One of eight partitions.
const CPX: Alike = Alike {
    chip: (Some(90402), Some(1)),
    simd: 152,
    vram: Some((true, 25_767_706_624)),
    ..MI300X
};
const RX_6900_XT: Alike = Alike {
    device: 0x73bf,
    chip: (Some(100_300), Some(1)),
    simd: 160,
    vram: Some((true, 17_163_091_968)),
    ..MI210
};

const EIGHT: &[u32] = &[2, 3, 4, 5, 6, 7, 8, 9];
const NODES: [u32; 64] = {
    let mut nodes = [0; 64];
    let mut node = 2;
    while node < 66 {
        nodes[node as usize - 2] = node;
        node += 1;
    }
    nodes
};
const ALL: &[&[u32]] = &[&NODES];
const ALL_BUT_ONE: &[&[u32]] = &[NODES.split_at(63).0];
const FIRST_32: &[&[u32]] = &[NODES.split_at(32).0];

#[rustfmt::skip]
const MACHINES: &[Machine] = &[
    Machine { name: "desktop-raven", cpus: &[], hives: &[], gpus: &[
        // The node is also the CPU: links count as links to a GPU.
        Alike { count: 1, device: 0x15dd, chip: (Some(90002), None), simd: 44, vram: None, links: (0, 0), ..MI210 },
        Alike { count: 1, chip: (Some(100_300), None), vram: Some((false, 17_163_091_968)), links: (0, 1), ..RX_6900_XT },
    ] },
    Machine { name: "desktop-renoir", cpus: &[16], hives: &[], gpus: &[
        Alike { count: 1, ..RX_6900_XT },
        Alike { count: 1, device: 0x1636, chip: (Some(90012), Some(1)), simd: 32, vram: Some((true, 512 << 20)), ..MI210 },
    ] },
    Machine { name: "mi210-8", cpus: &[64; 2], hives: &[&[2, 3, 4, 5], &[6, 7, 8, 9]], gpus: &[
        Alike { count: 8, links: (1, 3), ..MI210 },
    ] },
    Machine { name: "mi210-pair", cpus: &[64; 2], hives: &[&[2, 3]], gpus: &[
        Alike { count: 2, links: (1, 1), ..MI210 },
    ] },
    Machine { name: "mi250x-trento", cpus: &[32; 4], hives: &[&[4, 5, 6, 7, 8, 9, 10, 11]], gpus: &[
        Alike { count: 8, device: 0x7408, chip: (Some(90010), None), simd: 440, links: (1, 7), cpu_link: LinkKind::Xgmi, ..MI210 },
    ] },
    Machine { name: "mi300a", cpus: &[48; 4], hives: &[&[4, 5, 6, 7]], gpus: &[
        Alike { count: 4, device: 0x74a0, chip: (Some(90402), Some(6)), simd: 912, vram: Some((true, 128 << 30)), links: (1, 3),
                cpu_link: LinkKind::Xgmi },
    ] },
    Machine { name: "mi300x-cpx", cpus: &[96; 2], hives: ALL, gpus: &[Alike { count: 64, links: (1, 63), ..CPX }] },
    Machine { name: "mi300x-cpx-63", cpus: &[96; 2], hives: ALL_BUT_ONE, gpus: &[Alike { count: 63, links: (1, 62), ..CPX }] },
    Machine { name: "mi300x-spx", cpus: &[96; 2], hives: &[EIGHT], gpus: &[Alike { count: 8, links: (1, 7), ..MI300X }] },
    Machine { name: "mi308x-cpx", cpus: &[112; 2], hives: FIRST_32, gpus: &[
        Alike { count: 32, device: 0x74a2, simd: 80, vram: Some((true, 51_535_413_248)), links: (1, 31), ..CPX },
    ] },
    Machine { name: "vega10-linux419", cpus: &[20], hives: &[], gpus: &[
        Alike { count: 1, device: 0x6860, chip: (None, None), simd: 256, vram: Some((true, 17_163_091_968)), ..MI210 },
    ] },
    Machine { name: "vega20-pair", cpus: &[32], hives: &[&[1, 2]], gpus: &[
        Alike { count: 2, device: 0x66a1, chip: (Some(90006), None), simd: 256, vram: Some((true, 34_342_961_152)), links: (1, 1), ..MI210 },
    ] },
    Machine { name: "workstation-mixed", cpus: &[24], hives: &[], gpus: &[
        Alike { count: 1, device: 0x66af, chip: (Some(90006), Some(1)), simd: 240, vram: Some((true, 17_163_091_968)), ..MI210 },
        Alike { count: 1, device: 0x7489, chip: (Some(110_002), Some(1)), simd: 56, vram: Some((true, 8_573_157_376)), ..MI210 },
        Alike { count: 1, device: 0x73ef, chip: (Some(100_302), Some(1)), simd: 64, vram: Some((true, 8_573_157_376)), ..MI210 },
    ] },
];

fn is_gpu(system: &System, node: NodeId) -> bool {
    system
        .node(node)
        .is_some_and(|node| node.as_gpu().is_some())
}

#[test]
fn each_machine_is_what_it_is() {
    let all = trees::all();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<&str> = MACHINES.iter().map(|machine| machine.name).collect();
    assert_eq!(names, expected);
    for ((name, files), machine) in all.iter().zip(MACHINES) {
        let system = read(files);
        let cores: Vec<u32> = system.cpus().map(|cpu| cpu.cpu_cores).collect();
        assert_eq!(cores, machine.cpus, "{name}");
        let hives: Vec<Vec<u32>> = system
            .hives()
            .iter()
            .map(|hive| hive.iter().map(|node| node.get()).collect())
            .collect();
        assert_eq!(hives, machine.hives, "{name}");
        assert!(system.masked.is_empty(), "{name}");
        let gpus: Vec<&GpuNode> = system.gpus().collect();
        let expected = machine
            .gpus
            .iter()
            .flat_map(|alike| std::iter::repeat_n(alike, alike.count));
        assert_eq!(gpus.len(), expected.clone().count(), "{name}");
        for (gpu, alike) in gpus.into_iter().zip(expected) {
            check_gpu(&system, gpu, alike, name);
        }
    }
}

fn check_gpu(system: &System, gpu: &GpuNode, alike: &Alike, name: &str) {
    let what = format!("{name}, node {}", gpu.node);
    let properties = &gpu.properties;
    assert_eq!(properties.vendor_id, 0x1002, "{what}");
    assert_eq!(properties.device_id, alike.device, "{what}");
    assert_eq!((gpu.gfx_target_version, gpu.num_xcc), alike.chip, "{what}");
    assert_eq!(properties.simd_count, alike.simd, "{what}");
    let vram = properties.vram.map(|vram| (vram.public, vram.size));
    assert_eq!(vram, alike.vram, "{what}");
    assert!(gpu.location_id.is_some_and(|place| place != 0), "{what}");
    // What the kernel counts is what is there, and every link leads somewhere.
    assert_eq!(
        gpu.links.len(),
        properties.io_links_count as usize,
        "{what}"
    );
    assert!(gpu.links.iter().all(|link| link.valid), "{what}");
    assert_eq!(gpu.valid_link_count(), gpu.links.len() as u64, "{what}");
    let (to_gpus, to_cpus): (Vec<&Link>, Vec<&Link>) =
        gpu.links.iter().partition(|link| is_gpu(system, link.to));
    assert_eq!((to_cpus.len(), to_gpus.len()), alike.links, "{what}");
    // The way back exists unless the frame buffer is private.
    let public = properties.vram.is_none_or(|vram| vram.public);
    for link in to_cpus {
        assert_eq!(
            (link.kind, link.bidirectional),
            (alike.cpu_link, public),
            "{what}"
        );
    }
    for link in to_gpus {
        let kind = if public {
            LinkKind::Xgmi
        } else {
            LinkKind::Pcie
        };
        assert_eq!((link.kind, link.bidirectional), (kind, public), "{what}");
    }
    assert_eq!(
        gpu.hive_id.is_some(),
        system.hives().iter().any(|hive| hive.contains(&gpu.node)),
        "{what}"
    );
}

#[test]
fn ids_and_render_nodes_are_unique_and_lead_back() {
    for (name, files) in trees::all() {
        let system = read(&files);
        for gpu in system.gpus() {
            assert_eq!(system.gpu(gpu.id), Some(gpu), "{name}");
            assert_eq!(system.gpu_by_minor(gpu.render_minor), Some(gpu), "{name}");
            assert!((128..192).contains(&gpu.render_minor.get()), "{name}");
            assert!((1..=0xffff).contains(&gpu.id.get()), "{name}");
        }
    }
}

#[test]
fn partitions_of_a_card_share_its_serial_number_and_differ_in_place() {
    for (name, cards, each, first_minors) in [
        ("mi300x-cpx", 8, 8, [128, 136]),
        ("mi308x-cpx", 8, 4, [128, 136]),
        ("mi300x-spx", 8, 1, [128, 136]),
    ] {
        let system = read(&trees::tree(name));
        let gpus: Vec<&GpuNode> = system.gpus().collect();
        let mut serials: Vec<_> = gpus.iter().map(|gpu| gpu.unique_id).collect();
        serials.dedup();
        assert_eq!(serials.len(), cards, "{name}");
        for card in gpus.chunks(each) {
            for (function, gpu) in (0..).zip(card) {
                assert_eq!(gpu.unique_id, card[0].unique_id, "{name}");
                assert_eq!(gpu.domain, card[0].domain, "{name}");
                let place = card[0].location_id.map(|place| place + function);
                assert_eq!(gpu.location_id, place, "{name}");
                assert_eq!(gpu.links[0], card[0].links[0], "{name}");
            }
        }
        let minors = [gpus[0], gpus[each]].map(|gpu| gpu.render_minor.get());
        assert_eq!(minors, first_minors, "{name}");
    }
    let system = read(&trees::tree("mi308x-cpx"));
    let domains: Vec<u32> = system.gpus().map(|gpu| gpu.domain).collect();
    assert_eq!(domains, [[0; 16], [1; 16]].concat());
    assert_eq!(system.gpu_by_minor(RenderMinor(132)), None);
}

#[test]
fn each_gpu_hangs_on_its_own_numa_node() {
    for (name, homes) in [
        ("mi210-8", &[0, 0, 0, 0, 1, 1, 1, 1][..]),
        ("mi210-pair", &[1, 1]),
        ("mi250x-trento", &[3, 3, 1, 1, 0, 0, 2, 2]),
        ("mi300a", &[0, 1, 2, 3]),
        ("mi300x-spx", &[0, 0, 0, 0, 1, 1, 1, 1]),
    ] {
        let system = read(&trees::tree(name));
        let found: Vec<u32> = system.gpus().map(|gpu| gpu.links[0].to.get()).collect();
        assert_eq!(found, homes, "{name}");
    }
}

#[test]
fn cpus_are_linked_with_each_other_by_links_that_do_not_count() {
    for (name, kind) in [("mi210-8", 1), ("mi308x-cpx", 5), ("mi250x-trento", 1)] {
        let system = read(&trees::tree(name));
        let others = system.cpus().count() - 1;
        for cpu in system.cpus() {
            let (between, to_gpus): (Vec<&Link>, Vec<&Link>) =
                cpu.links.iter().partition(|link| !is_gpu(&system, link.to));
            assert_eq!(between.len(), others, "{name}");
            assert!(
                between
                    .iter()
                    .all(|link| link.kind == LinkKind::Other(kind)),
                "{name}"
            );
            assert!(to_gpus.iter().all(|link| link.bidirectional), "{name}");
            assert_eq!(
                to_gpus.len(),
                system.gpus().count() / (others + 1),
                "{name}"
            );
        }
    }
}

/// Up to Linux 6.5: the APU is one node that is a GPU for us, as for the C plugin, and its cores are not seen.
#[test]
fn an_apu_in_one_node_is_a_gpu_without_frame_buffer() {
    let system = read(&trees::tree("desktop-raven"));
    let nodes: Vec<bool> = system
        .nodes
        .iter()
        .map(|node| matches!(node, Node::Gpu(_)))
        .collect();
    assert_eq!(nodes, [true, true]);
    let gpus: Vec<&GpuNode> = system.gpus().collect();
    assert_eq!(gpus[0].properties.vram, None);
    assert_eq!(
        (gpus[1].links[0].to, gpus[1].links[0].bidirectional),
        (NodeId(0), false)
    );
}
