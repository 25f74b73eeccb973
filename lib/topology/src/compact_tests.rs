use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{ComputePartition, MemoryPartition, Vram};

/// Two models, three GPUs, one of them masked; links of all kinds.
fn sample() -> System {
    let links = |links: &[(LinkKind, u32)]| -> Vec<Link> {
        let new = |(kind, to): &(LinkKind, u32)| Link::new(*kind, NodeId(*to));
        links.iter().map(new).collect()
    };
    use LinkKind::{Other, Pcie, Xgmi};
    let gpu = |node: u32, links| GpuNode {
        node: NodeId(node),
        id: ActualGpuId(0xa000 + node),
        render_minor: RenderMinor(126 + node),
        domain: 1,
        hive_id: HiveId::from_raw(u64::MAX),
        properties: GpuProperties {
            simd_count: 440,
            vram: Some(Vram {
                public: true,
                size: 64 << 30,
            }),
            ..GpuProperties::default()
        },
        location_id: Some(0xc100),
        unique_id: Some(0x1234_5678_9abc_def0),
        gfx_target_version: Some(90_402),
        num_xcc: Some(1),
        compute_partition: Some(ComputePartition::Cpx),
        memory_partition: Some(MemoryPartition::Nps4),
        links,
    };
    let nodes = vec![
        Node::Cpu(CpuNode {
            node: NodeId(0),
            cpu_cores: 64,
            links: links(&[(Pcie, 2), (Pcie, 3), (Pcie, 4), (Other(1), 1)]),
        }),
        Node::Cpu(CpuNode {
            node: NodeId(1),
            cpu_cores: 64,
            links: links(&[(Other(1), 0), (Other(5), 0)]),
        }),
        Node::Gpu(gpu(2, links(&[(Pcie, 0), (Xgmi, 3), (Xgmi, 4)]))),
        Node::Gpu(GpuNode {
            hive_id: None,
            location_id: None,
            unique_id: None,
            gfx_target_version: None,
            num_xcc: None,
            compute_partition: None,
            memory_partition: None,
            ..gpu(3, links(&[(Pcie, 0), (Xgmi, 2), (Xgmi, 2)]))
        }),
    ];
    System {
        xnack: Some(false),
        ..System::new(nodes, vec![NodeId(4)])
    }
}

/// What is published: a change here is a change of the interface.
#[test]
fn the_form_is_pinned() {
    let properties = json!({
        "simdCount": 440, "memBanksCount": 0, "cachesCount": 0, "ioLinksCount": 0, "maxWavesPerSimd": 0, "ldsSizeInKb": 0,
        "numGws": 0, "waveFrontSize": 0, "arrayCount": 0, "simdArraysPerEngine": 0, "cuPerSimdArray": 0, "simdPerCu": 0,
        "maxSlotsScratchCu": 0, "vendorId": 0, "deviceId": 0, "numSdmaEngines": 0, "numSdmaXgmiEngines": 0,
        "numSdmaQueuesPerEngine": 0, "numCpQueues": 0, "fwVersion": 0, "capability": 0, "sdmaFwVersion": 0,
        "vram": {"public": true, "size": 68_719_476_736_u64},
    });
    let expected = json!({
        "version": 1,
        "cpus": [
            {"node": 0, "cores": 64, "links": {"pcie": "2-4", "other": [{"type": 1, "nodes": "1"}]}},
            {"node": 1, "cores": 64, "links": {"other": [{"type": 1, "nodes": "0"}, {"type": 5, "nodes": "0"}]}},
        ],
        "models": [
            {
                "gfxTargetVersion": 90402, "numXcc": 1, "computePartition": "CPX", "memoryPartition": "NPS4",
                "properties": properties,
            },
            {"properties": properties},
        ],
        "gpus": [
            {
                "node": 2, "gpuId": 0xa002, "renderMinor": 128, "domain": 1, "locationId": 0xc100, "uniqueId": "0x123456789abcdef0",
                "hiveId": "0xffffffffffffffff", "model": 0, "links": {"pcie": "0", "xgmi": "3-4"},
            },
            {
                "node": 3, "gpuId": 0xa003, "renderMinor": 129, "domain": 1, "model": 1,
                "links": {"pcie": "0", "xgmi": "2,2"},
            },
        ],
        "masked": "4",
        "xnack": false,
    });
    let compact = CompactTopology::from(&sample());
    assert_eq!(serde_json::to_value(&compact).expect("JSON"), expected);
    let read: CompactTopology = serde_json::from_value(expected).expect("its own form");
    assert_eq!(System::try_from(&read), Ok(sorted(sample())));
    assert_eq!(
        serde_json::to_value(CompactTopology::from(&System::default())).expect("JSON"),
        json!({"version": 1})
    );
}

/// Fields of later writers, and what they leave out, do not stop a reader.
#[test]
fn unknown_fields_and_modes_are_skipped() {
    let mut value = serde_json::to_value(CompactTopology::from(&sample())).expect("JSON");
    value["generation"] = json!(7);
    value["gpus"][0]["temperature"] = json!({"edge": 50});
    value["models"][0]["properties"]["cwsrSize"] = json!(1);
    value["cpus"][0]["links"]["cxl"] = json!("2");
    value["models"][0]["computePartition"] = json!("HPX");
    let read: CompactTopology = serde_json::from_value(value).expect("read");
    let mut expected = sorted(sample());
    for node in &mut expected.nodes {
        if let Node::Gpu(gpu) = node {
            gpu.compute_partition = None;
        }
    }
    assert_eq!(System::try_from(&read), Ok(expected));
}

#[test]
fn damage_is_named() {
    let change = |path: &str, value: Value| {
        let mut form = serde_json::to_value(CompactTopology::from(&sample())).expect("JSON");
        *form.pointer_mut(path).expect("a field of the sample") = value;
        let form: CompactTopology = serde_json::from_value(form).expect("of the right types");
        System::try_from(&form).expect_err(path).to_string()
    };
    for (path, value, message) in [
        (
            "/version",
            json!(2),
            "Version 2 is not understood, only version 1",
        ),
        ("/gpus/1/node", json!(1), "Node 1 is there twice"),
        ("/masked", json!("3-4"), "Node 3 is there twice"),
        ("/masked", json!("4,4"), "Node 4 is there twice"),
        (
            "/gpus/1/gpuId",
            json!(0xa002),
            "GPU 0xa002 is node 2 and node 3",
        ),
        ("/gpus/0/gpuId", json!(0), "GPU of node 2 has gpuId 0"),
        (
            "/gpus/1/model",
            json!(2),
            "GPU of node 3 is of model 2, but there are 2 models",
        ),
        (
            "/gpus/0/links/xgmi",
            json!("4-3"),
            "Invalid list of nodes \"4-3\" in xgmi: a range ends before it begins",
        ),
        (
            "/gpus/0/links/pcie",
            json!("5,0-5"),
            "Invalid list of nodes \"5,0-5\" in pcie: not in ascending order",
        ),
        (
            "/cpus/0/links/other/0/nodes",
            json!("1-2-3"),
            "Invalid list of nodes \"1-2-3\" in other: expected numbers and ranges",
        ),
        (
            "/masked",
            json!("\u{1b}[2J"),
            "Invalid list of nodes \"\\u{1b}[2J\" in masked: expected numbers and ranges",
        ),
        ("/masked", json!("0-4294967295"), "More than 4096 nodes"),
        (
            "/gpus/0/links/xgmi",
            json!("0-4294967295"),
            "More than 262144 links",
        ),
        (
            "/gpus/0/uniqueId",
            json!("12"),
            "Invalid uniqueId \"12\" of node 2: expected 0x and up to 16 hexadecimal digits",
        ),
        (
            "/gpus/0/hiveId",
            json!("0x10000000000000000"),
            "Invalid hiveId \"0x10000000000000000\" of node 2: expected 0x and up to 16 hexadecimal digits",
        ),
        (
            "/gpus/0/hiveId",
            json!("0x+1"),
            "Invalid hiveId \"0x+1\" of node 2: expected 0x and up to 16 hexadecimal digits",
        ),
    ] {
        assert_eq!(change(path, value), message);
    }
    for text in [
        "",
        "0x",
        "x",
        "1,",
        ",1",
        " 1",
        "1 ",
        "+1",
        "-1",
        "1-",
        "4294967296",
        "0x1",
    ] {
        if !text.is_empty() {
            assert!(list::read(text, 10).is_err(), "{text:?}");
        }
    }
    assert_eq!(list::read("", 0), Ok(vec![]));
}

#[test]
fn limits_hold_over_all_lists_together() {
    let mut compact = CompactTopology::from(&sample());
    // The sample has 12 links; the bound is met exactly, then exceeded by one.
    let room = MAX_LINKS - 12;
    compact.cpus[1].links.xgmi = format!("10-{}", room + 9);
    let links = |system: &System| -> usize {
        let links = system.nodes.iter().map(|node| node.links().len());
        links.sum()
    };
    let system = System::try_from(&compact).expect("as many as there may be");
    assert_eq!(links(&system), MAX_LINKS);
    compact.cpus[1].links.xgmi = format!("10-{}", room + 10);
    let limit = MAX_LINKS;
    let error = System::try_from(&compact).expect_err("one more");
    assert_eq!(error, CompactError::TooManyLinks { limit });

    let mut compact = CompactTopology::from(&sample());
    compact.masked = "10-4101".to_owned();
    assert_eq!(
        System::try_from(&compact).map(|system| system.masked.len()),
        Ok(4092)
    );
    compact.masked = "10-4102".to_owned();
    let limit = MAX_ENTRIES;
    let error = System::try_from(&compact).expect_err("one more");
    assert_eq!(error, CompactError::TooManyNodes { limit });
    compact.masked = String::new();
    compact.cpus = vec![compact.cpus[0].clone(); 4095];
    let error = System::try_from(&compact).expect_err("two more");
    assert_eq!(error, CompactError::TooManyNodes { limit });
}

/// In the order in which a compact form comes back.
fn sorted(mut system: System) -> System {
    system.nodes.sort_by_key(Node::id);
    for node in &mut system.nodes {
        node.links_mut().sort_by_key(|link| (link.kind, link.to));
    }
    system.masked.sort_unstable();
    system
}

fn any_links() -> impl Strategy<Value = Vec<Link>> {
    // Few targets, so that there are runs, gaps, repetitions and ways back.
    let kind = prop_oneof![Just(2_u32), Just(11), 0..14_u32, any::<u32>()];
    let to = prop_oneof![0..12_u32, 0..12_u32, any::<u32>(), Just(u32::MAX)];
    let link = (kind, to).prop_map(|(kind, to)| Link::new(LinkKind::from_raw(kind), NodeId(to)));
    prop::collection::vec(link, 0..8)
}

fn any_properties() -> impl Strategy<Value = GpuProperties> {
    let numbers = prop::array::uniform22(prop_oneof![Just(0_u32), 0..3_u32, any::<u32>()]);
    let vram = prop::option::of((any::<bool>(), 1..=u64::MAX));
    (numbers, vram).prop_map(|(n, vram)| GpuProperties {
        simd_count: n[0],
        mem_banks_count: n[1],
        caches_count: n[2],
        io_links_count: n[3],
        max_waves_per_simd: n[4],
        lds_size_in_kb: n[5],
        num_gws: n[6],
        wave_front_size: n[7],
        array_count: n[8],
        simd_arrays_per_engine: n[9],
        cu_per_simd_array: n[10],
        simd_per_cu: n[11],
        max_slots_scratch_cu: n[12],
        vendor_id: n[13],
        device_id: n[14],
        num_sdma_engines: n[15],
        num_sdma_xgmi_engines: n[16],
        num_sdma_queues_per_engine: n[17],
        num_cp_queues: n[18],
        fw_version: n[19],
        capability: n[20],
        sdma_fw_version: n[21],
        vram: vram.map(|(public, size)| Vram { public, size }),
    })
}

/// A GPU without names and links.
fn any_model() -> impl Strategy<Value = GpuNode> {
    let compute = prop::option::of(prop::sample::select(ComputePartition::ALL));
    let memory = prop::option::of(prop::sample::select(MemoryPartition::ALL));
    let chip = (any::<Option<u32>>(), any::<Option<u32>>());
    (any_properties(), chip, compute, memory).prop_map(
        |(properties, (gfx_target_version, num_xcc), compute_partition, memory_partition)| {
            GpuNode {
                properties,
                gfx_target_version,
                num_xcc,
                compute_partition,
                memory_partition,
                ..GpuNode::default()
            }
        },
    )
}

fn any_system() -> impl Strategy<Value = System> {
    let models = prop::collection::vec(any_model(), 1..4);
    let place = (
        any::<Option<u32>>(),
        any::<Option<u64>>(),
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
    );
    let node = (
        any::<bool>(),
        any::<prop::sample::Index>(),
        place,
        any_links(),
    );
    let nodes = prop::collection::hash_map(prop_oneof![0..12_u32, any::<u32>()], node, 0..12);
    let masked = prop::collection::hash_set(0..20_u32, 0..6);
    (models, nodes, masked, any::<Option<bool>>()).prop_map(|(models, nodes, masked, xnack)| {
        let masked = masked.into_iter().filter(|node| !nodes.contains_key(node));
        let masked: Vec<NodeId> = masked.map(NodeId).collect();
        let nodes = nodes.into_iter().enumerate();
        let nodes = nodes.map(|(index, (node, (is_cpu, model, place, links)))| {
            let node = NodeId(node);
            let (location_id, unique_id, hive, render_minor, domain) = place;
            if is_cpu {
                return Node::Cpu(CpuNode {
                    node,
                    cpu_cores: domain,
                    links,
                });
            }
            Node::Gpu(GpuNode {
                node,
                id: ActualGpuId(u32::try_from(index).expect("small") + 1),
                render_minor: RenderMinor(render_minor),
                domain,
                hive_id: HiveId::from_raw(hive),
                location_id,
                unique_id,
                links,
                ..models[model.index(models.len())].clone()
            })
        });
        System {
            xnack,
            ..System::new(nodes.collect(), masked)
        }
    })
}

proptest! {
    #[test]
    fn systems_come_back(system in any_system()) {
        let compact = CompactTopology::from(&system);
        let text = serde_json::to_string(&compact).expect("JSON");
        let read: CompactTopology = serde_json::from_str(&text).expect("its own form");
        prop_assert_eq!(&read, &compact);
        let back = System::try_from(&read).expect("its own form");
        prop_assert_eq!(&back, &sorted(system));
        // One form for one system, whatever the order of its nodes and links.
        prop_assert_eq!(CompactTopology::from(&back), compact);
    }

    #[test]
    fn nothing_panics(system in any_system(), lists in prop::collection::vec("[0-9,-]{0,12}", 3), model: u32, id in "0?x?[0-9a-g]{0,18}") {
        let mut compact = CompactTopology::from(&system);
        compact.masked.clone_from(&lists[0]);
        if let Some(cpu) = compact.cpus.first_mut() {
            cpu.links.pcie.clone_from(&lists[1]);
            cpu.links.other.push(CompactOtherLinks { kind: model % 3 * 11, nodes: lists[2].clone() });
        }
        if let Some(gpu) = compact.gpus.first_mut() {
            gpu.model = model % 4;
            gpu.unique_id = Some(id);
        }
        if let Ok(system) = System::try_from(&compact) {
            prop_assert_eq!(System::try_from(&CompactTopology::from(&system)), Ok(system));
        }
    }
}
