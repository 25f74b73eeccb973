//! Placement on clusters made of a few kinds of machines.

use rocferry_topology::{
    COMPACT_VERSION, Checks, CompactCpu, CompactGpu, CompactLinks, CompactModel, CompactTopology,
    GpuProperties, NodeId, RenderMinor, Vram,
};

use super::*;

/// Eight GPUs in one hive, as two CPUs of four each have them. `seed` names the machine's ids.
fn machine(seed: u32, device_id: u32, gpus: u32) -> CompactTopology {
    let node = |gpu: u32| gpu + 2;
    let last = node(gpus - 1);
    CompactTopology {
        version: COMPACT_VERSION,
        cpus: (0..2)
            .map(|cpu| CompactCpu {
                node: NodeId(cpu),
                cores: 96,
                links: CompactLinks {
                    pcie: format!("2-{last}"),
                    ..CompactLinks::default()
                },
            })
            .collect(),
        models: vec![CompactModel {
            gfx_target_version: Some(90402),
            num_xcc: Some(8),
            compute_partition: None,
            memory_partition: None,
            properties: GpuProperties {
                device_id,
                vendor_id: 0x1002,
                simd_count: 1216,
                vram: Some(Vram {
                    public: true,
                    size: 192 << 30,
                }),
                ..GpuProperties::default()
            },
        }],
        gpus: (0..gpus)
            .map(|gpu| {
                let others = (0..gpus).filter(|other| *other != gpu);
                let peers: Vec<String> = others.map(|other| node(other).to_string()).collect();
                CompactGpu {
                    node: NodeId(node(gpu)),
                    // Other names on every machine, in another order.
                    gpu_id: ActualGpuId((seed * 7919 + gpu * 104_729) % 60_000 + 1000 + gpu),
                    render_minor: RenderMinor(128 + gpu * (1 + seed % 8)),
                    domain: 0,
                    location_id: Some((seed % 100 + gpu) << 8),
                    unique_id: Some(format!("0x{:x}", u64::from(seed) << 16 | u64::from(gpu))),
                    hive_id: Some(format!("0x{:x}", seed + 1)),
                    model: 0,
                    links: CompactLinks {
                        pcie: if gpu < gpus / 2 { "0" } else { "1" }.to_owned(),
                        xgmi: peers.join(","),
                        other: vec![],
                    },
                }
            })
            .collect(),
        masked: String::new(),
        xnack: None,
    }
}

fn node(name: &str, seed: u32, device_id: u32) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        ready: true,
        schedulable: true,
        topology: Some(machine(seed, device_id, 8)),
        features: [Feature::Wrapper, Feature::HeldRestore].into(),
        stores: ["lab".to_owned()].into(),
        criu: "4.2.1".parse().ok(),
        ..NodeFacts::default()
    }
}

fn demand(request: &str, gpus: u32) -> Demand {
    // Only the GPUs of the process are in a checkpoint.
    let mut topology = machine(77, 0x74a1, 8);
    topology.gpus.truncate(gpus as usize);
    let gpus = match gpus {
        0 => vec![],
        _ => vec![GpuDemand::new("main", &topology, Checks::default()).expect("a checkpoint")],
    };
    Demand {
        request: request.to_owned(),
        gpus,
        store: "lab".to_owned(),
        criu: "4.2".parse().ok(),
        held: true,
        ..Demand::default()
    }
}

fn cluster(nodes: impl IntoIterator<Item = NodeFacts>) -> Nodes {
    let mut all = Nodes::default();
    nodes.into_iter().for_each(|node| all.set(node));
    all
}

fn real_ids(seed: u32) -> Vec<ActualGpuId> {
    machine(seed, 0, 8)
        .gpus
        .iter()
        .map(|gpu| gpu.gpu_id)
        .collect()
}

#[test]
fn machines_of_one_kind_are_one_shape() {
    let (one, _, _) = shape(&machine(1, 0x74a1, 8)).expect("a shape");
    let (two, _, ids) = shape(&machine(2, 0x74a1, 8)).expect("a shape");
    assert_eq!(one, two);
    assert_eq!(ids, real_ids(2));
    let (other, _, _) = shape(&machine(1, 0x7408, 8)).expect("a shape");
    assert_ne!(one, other);
    // Another partition of a card is another shape: SDMA queues go by it.
    let mut partition = machine(1, 0x74a1, 8);
    partition.gpus[0].location_id = Some(1 << 28 | 5);
    assert_ne!(shape(&partition).expect("a shape").0, one);
}

#[test]
fn the_mapping_has_the_names_of_the_node() {
    let mut nodes = cluster([node("a", 5, 0x74a1)]);
    let placed = nodes.place(&demand("r", 4)).expect("a node");
    assert_eq!(placed.node, "a");
    let (container, mapping) = &placed.mappings[0];
    assert_eq!((container.as_str(), mapping.len()), ("main", 4));
    let real = real_ids(5);
    assert!(
        mapping.iter().all(|(_, to)| real.contains(&to)),
        "{mapping:?}"
    );
}

#[test]
fn the_tightest_fit_wins_and_blocks_win_over_it() {
    let mut tight = node("c", 3, 0x74a1);
    tight.in_use = real_ids(3)[..6].to_vec();
    let mut nodes = cluster([node("a", 1, 0x74a1), node("b", 2, 0x74a1), tight.clone()]);
    assert_eq!(nodes.place(&demand("r", 2)).expect("a node").node, "c");
    // The tight one is full now.
    assert_eq!(nodes.place(&demand("s", 2)).expect("a node").node, "a");
    let mut warm = node("b", 2, 0x74a1);
    warm.cached
        .insert("20261201t093000-0123456789ab".to_owned(), 1 << 30);
    nodes.set(warm);
    let mut wanted = demand("t", 2);
    wanted.checkpoints = vec!["20261201t093000-0123456789ab".to_owned()];
    let placed = nodes.place(&wanted).expect("a node");
    assert_eq!((placed.node.as_str(), placed.cached_bytes), ("b", 1 << 30));
}

#[test]
fn promises_count_until_they_are_taken_back() {
    let mut nodes = cluster([node("a", 1, 0x74a1)]);
    let first = nodes.place(&demand("r", 4)).expect("a node");
    let second = nodes.place(&demand("s", 4)).expect("a node");
    let used = |placed: &Placed| -> BTreeSet<ActualGpuId> {
        placed.mappings[0].1.iter().map(|(_, to)| to).collect()
    };
    assert!(used(&first).is_disjoint(&used(&second)));
    let full = nodes.place(&demand("t", 1)).expect_err("nothing is free");
    assert_eq!(
        full.rejected[0].message,
        "1 GPUs are needed, 0 of 8 are free"
    );
    assert!(!full.exhausted);
    // Asked again, a request does not stand in its own way; nor does news of the node take promises away.
    nodes.place(&demand("s", 4)).unwrap();
    nodes.set(node("a", 1, 0x74a1));
    nodes.place(&demand("t", 1)).unwrap_err();
    nodes.release("r");
    nodes.place(&demand("t", 1)).unwrap();
}

#[test]
fn several_containers_get_different_gpus() {
    let mut wanted = demand("r", 4);
    let mut second = wanted.gpus[0].clone();
    second.container = "helper".to_owned();
    wanted.gpus.push(second);
    let mut nodes = cluster([node("a", 1, 0x74a1)]);
    let placed = nodes.place(&wanted).expect("a node");
    let all: BTreeSet<ActualGpuId> = placed
        .mappings
        .iter()
        .flat_map(|(_, mapping)| mapping.iter().map(|(_, to)| to))
        .collect();
    assert_eq!((placed.mappings.len(), all.len()), (2, 8));
    nodes.place(&demand("s", 1)).unwrap_err();
}

#[test]
fn a_container_without_gpus_goes_anywhere() {
    let mut nodes = cluster([node("a", 1, 0x7408)]);
    assert!(
        nodes
            .place(&demand("r", 0))
            .expect("a node")
            .mappings
            .is_empty()
    );
}

/// What a node or a demand is changed to, and what is said then.
type Case = (fn(&mut NodeFacts, &mut Demand), Reason, &'static str);

#[test]
fn every_reason_is_told() {
    let cases: [Case; 15] = [
        (
            |_, demand| demand.node_name = Some("z".to_owned()),
            Reason::NotSelected,
            "z was asked for",
        ),
        (
            |_, demand| {
                demand
                    .node_selector
                    .insert("pool".to_owned(), "a".to_owned());
            },
            Reason::NotSelected,
            "label pool=a",
        ),
        (|node, _| node.ready = false, Reason::NotReady, "not ready"),
        (
            |node, _| node.schedulable = false,
            Reason::Unschedulable,
            "cordoned",
        ),
        (
            |node, demand| {
                demand.tried.insert(node.name.clone());
            },
            Reason::AlreadyTried,
            "has failed there",
        ),
        (
            |node, _| node.features.clear(),
            Reason::NoWrapper,
            "wrapper",
        ),
        (
            |node, _| {
                node.features.remove(&Feature::HeldRestore);
            },
            Reason::CannotHold,
            "cgroup version 2",
        ),
        (
            |node, _| node.stores.clear(),
            Reason::StoreNotConfigured,
            "store lab",
        ),
        (
            |node, _| node.criu = "4.1.1".parse().ok(),
            Reason::CriuTooOld,
            "is 4.1.1, the checkpoint's 4.2",
        ),
        (|node, _| node.criu = None, Reason::CriuTooOld, "is none"),
        (
            |_, demand| {
                demand.cpu_features.insert("avx512f".to_owned());
            },
            Reason::CpuFeaturesMissing,
            "lacks avx512f",
        ),
        (
            |node, demand| (node.spool_bytes, demand.bytes) = (Some(10), 11),
            Reason::NoSpace,
            "11 bytes are needed, there is room for 10",
        ),
        (
            |node, demand| {
                (node.limit_seconds, node.bytes_per_second) = (Some(120), Some(100));
                demand.container_bytes = 9700;
            },
            Reason::TooSlow,
            "takes 97 s, and the kubelet breaks off after 120 s: raise runtimeRequestTimeout",
        ),
        (
            |node, _| node.topology = None,
            Reason::NoTopology,
            "no topology",
        ),
        (
            |node, _| node.topology = Some(machine(1, 0x7408, 8)),
            Reason::GpusDiffer,
            "On a: No usable GPU can replace",
        ),
    ];
    let mut told = BTreeSet::from([Reason::TooFewGpus]);
    for (change, reason, text) in cases {
        let (mut facts, mut wanted) = (node("a", 1, 0x74a1), demand("r", 2));
        cluster([facts.clone()]).place(&wanted).unwrap();
        change(&mut facts, &mut wanted);
        let mut nodes = cluster([facts]);
        let refused = nodes.place(&wanted).expect_err("is placed");
        assert_eq!(refused.rejected.len(), 1);
        let group = &refused.rejected[0];
        assert_eq!(
            (group.reason, group.count),
            (reason, 1),
            "{}",
            group.message
        );
        assert!(group.message.contains(text), "{}", group.message);
        assert_eq!(
            refused.exhausted,
            reason == Reason::AlreadyTried,
            "{reason:?}"
        );
        told.insert(reason);
    }
    assert_eq!(told.len(), Reason::ALL.len(), "{told:?}");
}

#[test]
fn a_topology_that_makes_no_sense_takes_nobody_along() {
    let mut broken = node("a", 1, 0x74a1);
    if let Some(topology) = &mut broken.topology {
        topology.gpus[1].gpu_id = topology.gpus[0].gpu_id;
    }
    let mut nodes = cluster([broken, node("b", 2, 0x74a1)]);
    assert_eq!(nodes.place(&demand("r", 2)).expect("a node").node, "b");
    let why = nodes.explain(&demand("s", 2)).rejected;
    assert!(
        why[0].message.contains("makes no sense"),
        "{}",
        why[0].message
    );
}

/// A cluster of the size that the benchmark has: what many nodes have in common is worked out once.
#[test]
fn thousands_of_nodes_are_a_few_questions() {
    let kinds = [0x74a1, 0x7408, 0x740f];
    let mut nodes = Nodes::default();
    for index in 0..5000_u32 {
        nodes.set(node(
            &format!("n{index:04}"),
            index,
            kinds[index as usize % kinds.len()],
        ));
    }
    assert_eq!(nodes.shapes.len(), kinds.len());
    let mut used = BTreeMap::<String, BTreeSet<ActualGpuId>>::new();
    for request in 0..1000 {
        let wanted = demand(&format!("r{request}"), [1, 2, 4, 8][request % 4]);
        let placed = nodes.place(&wanted).expect("a node");
        let gpus = used.entry(placed.node).or_default();
        for (_, to) in placed.mappings[0].1.iter() {
            assert!(gpus.insert(to), "{to} is promised twice");
        }
    }
    // For each demand: a whole node of each kind, and the few ways in which one is partly taken.
    assert!(nodes.matched() < 200, "{}", nodes.matched());
    // 3750 GPUs on 1667 nodes of the kind: none is begun before another one is full.
    assert!(used.len() <= 3750_usize.div_ceil(8) + 1, "{}", used.len());
}
