use proptest::prelude::*;

use super::*;
use crate::{CpuNode, GpuProperties, Link, LinkKind, Node, NodeId, Rule, Switch, Vram};

fn gpu<Id>(node: u32, id: Id, device_id: u32) -> GpuNode<Id> {
    GpuNode {
        node: NodeId(node),
        id,
        render_minor: crate::RenderMinor(128 + node),
        domain: 0,
        hive_id: None,
        properties: GpuProperties {
            simd_count: 416,
            wave_front_size: 64,
            vendor_id: 0x1002,
            device_id,
            num_gws: 64,
            caches_count: 100,
            fw_version: 50,
            sdma_fw_version: 20,
            capability: 0x5,
            vram: Some(Vram {
                public: true,
                size: 64 << 30,
            }),
            ..GpuProperties::default()
        },
        location_id: None,
        unique_id: None,
        gfx_target_version: None,
        num_xcc: None,
        links: vec![Link::new(LinkKind::Pcie, NodeId(0))],
    }
}

fn with_cpu<Id>(gpus: Vec<GpuNode<Id>>) -> System<Id> {
    let links = gpus
        .iter()
        .map(|gpu| Link::new(LinkKind::Pcie, gpu.node))
        .collect();
    let cpu = Node::Cpu(CpuNode {
        node: NodeId(0),
        cpu_cores: 64,
        links,
    });
    System::new(
        [cpu]
            .into_iter()
            .chain(gpus.into_iter().map(Node::Gpu))
            .collect(),
        vec![],
    )
}

/// GPUs given as (id, device id), nodes counted from 1.
fn source(gpus: &[(u32, u32)]) -> Vec<SourceGpu> {
    let gpus = (1..)
        .zip(gpus)
        .map(|(node, (id, dev))| gpu(node, UserGpuId(*id), *dev));
    with_cpu(gpus.collect()).gpus().cloned().collect()
}

fn here(gpus: &[(u32, u32)]) -> System {
    let gpus = (1..)
        .zip(gpus)
        .map(|(node, (id, dev))| gpu(node, ActualGpuId(*id), *dev));
    with_cpu(gpus.collect())
}

fn all(system: &System) -> Vec<ActualGpuId> {
    system.gpus().map(|gpu| gpu.id).collect()
}

fn map(source: &[SourceGpu], system: &System) -> Result<Vec<(u32, u32)>, MappingError> {
    map_gpus(source, &all(system), system, &Checks::default())
        .map(|mapping| mapping.iter().map(|(s, d)| (s.get(), d.get())).collect())
}

#[test]
fn p10_identity_is_preferred() {
    let gpus = [(0xa, 1), (0xb, 1), (0xc, 1), (0xd, 1)];
    let mapping = map_gpus(
        &source(&gpus),
        &all(&here(&gpus)),
        &here(&gpus),
        &Checks::default(),
    )
    .expect("identical");
    assert!(mapping.is_identity());
    assert_eq!(mapping.len(), 4);
    assert_eq!(mapping.actual(UserGpuId(0xb)), Some(ActualGpuId(0xb)));
    assert_eq!(mapping.user(ActualGpuId(0xd)), Some(UserGpuId(0xd)));
    assert_eq!(mapping.actual(UserGpuId(0xe)), None);
}

#[test]
fn equal_ids_in_another_order_are_not_mapped_crosswise() {
    let mapping = map(
        &source(&[(0xa, 1), (0xb, 1), (0xc, 1)]),
        &here(&[(0xc, 1), (0xa, 1), (0xb, 1)]),
    );
    assert_eq!(mapping, Ok(vec![(0xa, 0xa), (0xb, 0xb), (0xc, 0xc)]));
}

#[test]
fn other_ids_map_in_node_order_whatever_the_order_given() {
    let mut gpus = source(&[(0xa, 1), (0xb, 1), (0xc, 1)]);
    let system = here(&[(0x1, 1), (0x2, 1), (0x3, 1)]);
    assert_eq!(map(&gpus, &system), Ok(vec![(0xa, 1), (0xb, 2), (0xc, 3)]));
    gpus.reverse();
    let usable: Vec<_> = all(&system).into_iter().rev().collect();
    let mapping = map_gpus(&gpus, &usable, &system, &Checks::default()).expect("maps");
    let pairs: Vec<_> = mapping.iter().map(|(s, d)| (s.get(), d.get())).collect();
    assert_eq!(pairs, [(0xc, 3), (0xb, 2), (0xa, 1)]);
}

#[test]
fn a_gpu_keeps_its_own_id_where_the_others_still_fit() {
    // 0xa went away, 0xb is still there: only 0xa moves.
    let mapping = map(&source(&[(0xa, 1), (0xb, 1)]), &here(&[(0xb, 1), (0xc, 1)]));
    assert_eq!(mapping, Ok(vec![(0xa, 0xc), (0xb, 0xb)]));
    // Keeping 0xa would leave 0xb (device 2) nothing.
    let mapping = map(&source(&[(0xa, 1), (0xb, 2)]), &here(&[(0xa, 2), (0xb, 1)]));
    assert_eq!(mapping, Ok(vec![(0xa, 0xb), (0xb, 0xa)]));
}

#[test]
fn p6_mixed_devices_map_by_device() {
    let mapping = map(
        &source(&[(0xa0, 0), (0xa1, 0), (0xa2, 1), (0xa3, 0), (0xa4, 1)]),
        &here(&[(0xb0, 0), (0xb1, 1), (0xb2, 0), (0xb3, 0), (0xb4, 1)]),
    );
    let expected = vec![
        (0xa0, 0xb0),
        (0xa1, 0xb2),
        (0xa2, 0xb1),
        (0xa3, 0xb3),
        (0xa4, 0xb4),
    ];
    assert_eq!(mapping, Ok(expected));
}

#[test]
fn counts_must_be_equal_and_both_are_named() {
    let error = map(&source(&[(1, 1), (2, 1)]), &here(&[(1, 1)])).expect_err("too few");
    assert_eq!(
        error,
        MappingError::CountMismatch {
            source_gpus: 2,
            usable: 1
        }
    );
    assert_eq!(
        error.to_string(),
        "Checkpoint holds 2 GPUs, but 1 are usable here"
    );
    let error = map(&source(&[(1, 1)]), &here(&[(1, 1), (2, 1)])).expect_err("too many");
    assert_eq!(
        error,
        MappingError::CountMismatch {
            source_gpus: 1,
            usable: 2
        }
    );
}

#[test]
fn only_usable_gpus_are_taken() {
    let system = here(&[(0x1, 1), (0x2, 1), (0x3, 1)]);
    let gpus = source(&[(0x1, 1)]);
    let mapping = map_gpus(&gpus, &[ActualGpuId(0x3)], &system, &Checks::default());
    assert_eq!(
        mapping.map(|m| m.actual(UserGpuId(0x1))),
        Ok(Some(ActualGpuId(0x3)))
    );
    let usable = [ActualGpuId(0x9)];
    let error = map_gpus(&gpus, &usable, &system, &Checks::default()).expect_err("unknown");
    assert_eq!(
        error,
        MappingError::NotInTopology {
            gpu: ActualGpuId(0x9)
        }
    );
    let usable = [ActualGpuId(0x2), ActualGpuId(0x2)];
    let error = map_gpus(&gpus, &usable, &system, &Checks::default()).expect_err("twice");
    assert_eq!(
        error,
        MappingError::DuplicateDestination {
            gpu: ActualGpuId(0x2)
        }
    );
    let twice = [gpus[0].clone(), gpus[0].clone()];
    let error = map_gpus(&twice, &usable[..1], &system, &Checks::default()).expect_err("twice");
    assert_eq!(
        error,
        MappingError::DuplicateSource {
            gpu: UserGpuId(0x1)
        }
    );
}

#[test]
fn p13_too_few_of_one_kind_is_a_definite_no() {
    let error = map(
        &source(&[(1, 1), (2, 1), (3, 0), (4, 1)]),
        &here(&[(0x11, 1), (0x12, 1), (0x13, 0), (0x14, 0)]),
    )
    .expect_err("three of device 1, two here");
    let MappingError::TooFewCandidates {
        gpus,
        candidates: 2,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(
        gpus.iter().map(|g| g.gpu.get()).collect::<Vec<_>>(),
        [1, 2, 4]
    );
    let lines = error.lines();
    assert_eq!(
        lines[..2],
        [
            "GPU 0x0001 cannot use 0x0013, 0x0014: device_id differs: checkpoint 1, here 0",
            "GPU 0x0001 could use 0x0011, 0x0012, needed by other GPUs",
        ]
    );
}

#[test]
fn a_gpu_without_candidate_is_named_with_every_reason() {
    let gpus = source(&[(1, 1), (2, 1)]);
    let mut nodes = here(&[(0x11, 1), (0x12, 1)]).nodes;
    for node in &mut nodes {
        if let Node::Gpu(gpu) = node {
            gpu.properties.num_gws = 32;
            gpu.properties.fw_version = 49;
        }
    }
    let system = System::new(nodes, vec![]);
    let error = map(&gpus, &system).expect_err("firmware too old");
    assert_eq!(
        error.to_string(),
        "No usable GPU can replace 0x0001, 0x0002; GPU 0x0001 on 0x0011: num_gws too small: \
         checkpoint 64, here 32 (KFD_NUM_GWS_CHECK=0 allows it) and 1 more differences"
    );
    assert_eq!(
        error.lines(),
        [1, 2].map(|id| format!(
            "GPU 0x{id:04x} cannot use 0x0011, 0x0012: num_gws too small: checkpoint 64, here 32 \
             (KFD_NUM_GWS_CHECK=0 allows it); fw_version too small: checkpoint 50, here 49 \
             (KFD_FW_VER_CHECK=0 allows it)"
        ))
    );
    let checks = Checks::default()
        .with(Switch::NumGws, false)
        .with(Switch::FwVersion, false);
    map_gpus(&gpus, &all(&system), &system, &checks).expect("switches off");
}

/// P14: one property at a time, through its switch.
#[test]
fn p14_switches() {
    type Set = fn(&mut GpuProperties, u32);
    let switched: [(Switch, u32, u32, Set); 6] = [
        (Switch::VramSize, 100, 99, |p, v| {
            p.vram = Some(Vram {
                public: true,
                size: v.into(),
            });
        }),
        (Switch::NumGws, 64, 32, |p, v| p.num_gws = v),
        (Switch::CachesCount, 10, 9, |p, v| p.caches_count = v),
        (Switch::FwVersion, 50, 49, |p, v| p.fw_version = v),
        (Switch::SdmaFwVersion, 20, 19, |p, v| p.sdma_fw_version = v),
        (Switch::Capability, 1, 2, |p, v| p.capability = v),
    ];
    for (switch, large, small, set) in switched {
        let compare = |s: u32, d: u32, checks: Checks| {
            let (mut source, mut destination) =
                (gpu(1, UserGpuId(1), 7), gpu(1, ActualGpuId(2), 7));
            set(&mut source.properties, s);
            set(&mut destination.properties, d);
            compare_gpus(&source, &destination, &checks)
        };
        let found = compare(large, small, Checks::default());
        assert_eq!(found.len(), 1, "{switch}");
        assert_eq!(found[0].switch, Some(switch));
        assert_eq!(
            (found[0].source, found[0].destination),
            (large.into(), small.into())
        );
        assert!(compare(large, small, Checks::default().with(switch, false)).is_empty());
        let reversed = compare(small, large, Checks::default());
        assert_eq!(
            reversed.is_empty(),
            switch != Switch::Capability,
            "{switch}"
        );
        for other in Switch::ALL.into_iter().filter(|other| *other != switch) {
            assert_eq!(
                compare(large, small, Checks::default().with(other, false)).len(),
                1
            );
        }
    }
}

/// Every property that must be equal, changed alone, rejects whatever the switches.
#[test]
fn p14_equal_properties_have_no_switch() {
    type Change = fn(&mut GpuProperties);
    let changes: [(&str, Change); 18] = [
        ("simd_count", |p| p.simd_count += 1),
        ("mem_banks_count", |p| p.mem_banks_count += 1),
        ("io_links_count", |p| p.io_links_count += 1),
        ("max_waves_per_simd", |p| p.max_waves_per_simd += 1),
        ("lds_size_in_kb", |p| p.lds_size_in_kb += 1),
        ("wave_front_size", |p| p.wave_front_size += 1),
        ("array_count", |p| p.array_count += 1),
        ("simd_arrays_per_engine", |p| p.simd_arrays_per_engine += 1),
        ("cu_per_simd_array", |p| p.cu_per_simd_array += 1),
        ("simd_per_cu", |p| p.simd_per_cu += 1),
        ("max_slots_scratch_cu", |p| p.max_slots_scratch_cu += 1),
        ("vendor_id", |p| p.vendor_id += 1),
        ("device_id", |p| p.device_id += 1),
        ("num_sdma_engines", |p| p.num_sdma_engines += 1),
        ("num_sdma_xgmi_engines", |p| p.num_sdma_xgmi_engines += 1),
        ("num_sdma_queues_per_engine", |p| {
            p.num_sdma_queues_per_engine += 1;
        }),
        ("num_cp_queues", |p| p.num_cp_queues += 1),
        ("vram_public", |p| {
            p.vram = Some(Vram {
                public: false,
                size: 64 << 30,
            });
        }),
    ];
    let off = Switch::ALL
        .iter()
        .fold(Checks::default(), |checks, s| checks.with(*s, false));
    for (property, change) in changes {
        let source = gpu(1, UserGpuId(1), 7);
        let mut destination = gpu(1, ActualGpuId(2), 7);
        change(&mut destination.properties);
        let found = compare_gpus(&source, &destination, &off);
        assert_eq!(found.len(), 1, "{property}");
        assert_eq!(
            (found[0].property, found[0].rule, found[0].switch),
            (property, Rule::Equal, None)
        );
    }
}

#[test]
fn a_destination_needs_as_many_valid_links() {
    let two = with_cpu(vec![gpu(1, UserGpuId(1), 7), gpu(2, UserGpuId(2), 7)]);
    let mut linked: Vec<GpuNode<UserGpuId>> = two.gpus().cloned().collect();
    linked[0].links.push(Link::new(LinkKind::Xgmi, NodeId(2)));
    let two = with_cpu(linked);
    let source = two.gpu(UserGpuId(1)).expect("gpu");
    let destination = here(&[(1, 7)]);
    let destination = destination.gpu(ActualGpuId(1)).expect("gpu");
    let found = compare_gpus(source, destination, &Checks::default());
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].property, found[0].source, found[0].destination),
        ("valid_links", 2, 1)
    );
    assert!(compare_gpus(destination, source, &Checks::default()).is_empty());
}

/// What is compared and nothing else: places and names may all differ.
#[test]
fn places_and_names_are_not_compared() {
    let source = gpu(1, UserGpuId(1), 7);
    let destination = GpuNode {
        domain: 5,
        hive_id: crate::HiveId::from_raw(9),
        render_minor: crate::RenderMinor(190),
        location_id: Some(3),
        unique_id: Some(4),
        gfx_target_version: Some(90_402),
        num_xcc: Some(8),
        ..gpu(44, ActualGpuId(2), 7)
    };
    assert!(compare_gpus(&source, &destination, &Checks::default()).is_empty());
}

#[test]
fn a_gpu_without_frame_buffer_fits_only_its_like() {
    let with = gpu(1, UserGpuId(1), 7);
    let mut without = with.clone();
    without.properties.vram = None;
    assert!(compare_gpus(&without, &without, &Checks::default()).is_empty());
    let found = compare_gpus(&with, &without, &Checks::default());
    assert_eq!(
        found.iter().map(|d| d.property).collect::<Vec<_>>(),
        ["vram_public", "vram_size"]
    );
}

#[test]
fn sixty_four_partitions_are_quick() {
    let ids: Vec<(u32, u32)> = (0..64).map(|i| (0x100 + i, 1)).collect();
    let others: Vec<(u32, u32)> = (0..64).map(|i| (0x900 + i, 1)).collect();
    let start = std::time::Instant::now();
    assert_eq!(
        map(&source(&ids), &here(&others)),
        Ok((0..64).map(|i| (0x100 + i, 0x900 + i)).collect())
    );
    // All fit but one.
    let mut one_off = others;
    one_off[63].1 = 2;
    let error = map(&source(&ids), &here(&one_off)).expect_err("one too few");
    assert!(
        matches!(&error, MappingError::TooFewCandidates { gpus, candidates: 63 } if gpus.len() == 64)
    );
    assert!(error.to_string().len() < 300, "{error}");
    assert!(start.elapsed().as_secs() < 5);
}

proptest! {
    /// Against trying every assignment: same verdict, valid pairs, and identity whenever it is valid.
    #[test]
    fn agrees_with_trying_everything(
        devices in prop::collection::vec((0u32..3, 0u32..3, 0u32..3, any::<bool>()), 1..6),
    ) {
        // The destination may reuse ids of the source; firmware adds an order to the comparison.
        let sources: Vec<(u32, u32)> = (0u32..).zip(&devices).map(|(i, d)| (i, d.0)).collect();
        let ids: Vec<u32> = (0u32..).zip(&devices).map(|(i, d)| if d.3 { i } else { 100 + i }).collect();
        let here_gpus: Vec<(u32, u32)> = ids.iter().copied().zip(devices.iter().map(|d| d.1)).collect();
        let gpus = source(&sources);
        let mut nodes = here(&here_gpus).nodes;
        for (node, device) in nodes.iter_mut().skip(1).zip(&devices) {
            if let Node::Gpu(gpu) = node {
                gpu.properties.fw_version = 49 + device.2;
            }
        }
        let system = System::new(nodes, vec![]);
        let destinations: Vec<_> = system.gpus().collect();
        let fits = |s: usize, d: usize| {
            compare_gpus(&gpus[s], destinations[d], &Checks::default()).is_empty()
        };
        let possible = permutations(gpus.len())
            .into_iter()
            .any(|p| p.iter().enumerate().all(|(s, d)| fits(s, *d)));
        let identity = (0..gpus.len()).all(|i| ids[i] as usize == i && fits(i, i));
        match map_gpus(&gpus, &all(&system), &system, &Checks::default()) {
            Ok(mapping) => {
                prop_assert!(possible);
                prop_assert_eq!(mapping.len(), gpus.len());
                for (user, actual) in mapping.iter() {
                    let s = gpus.iter().position(|g| g.id == user).expect("source");
                    let d = destinations.iter().position(|g| g.id == actual).expect("destination");
                    prop_assert!(fits(s, d));
                }
                if identity {
                    prop_assert!(mapping.is_identity());
                }
            }
            Err(error) => {
                prop_assert!(!possible);
                prop_assert!(!error.lines().is_empty());
            }
        }
    }
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    permutations(n - 1)
        .into_iter()
        .flat_map(|p| {
            (0..n).map(move |at| {
                let mut p = p.clone();
                p.insert(at, n - 1);
                p
            })
        })
        .collect()
}
