use super::*;
use crate::{
    ActualGpuId, ComputePartition, GpuProperties, HiveId, Link, LinkKind, MemoryPartition, NodeId,
    RenderMinor, UserGpuId, Vram,
};

fn gpu<Id>(node: u32, id: Id, device_id: u32) -> GpuNode<Id> {
    GpuNode {
        node: NodeId(node),
        id,
        render_minor: RenderMinor(128 + node),
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
        compute_partition: None,
        memory_partition: None,
        links: vec![Link::new(LinkKind::Pcie, NodeId(0))],
    }
}

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
            [&found[0].source, &found[0].destination].map(ToString::to_string),
            match switch {
                Switch::Capability => [format!("0x{large:x}"), format!("0x{small:x}")],
                _ => [large.to_string(), small.to_string()],
            }
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

/// What images of the C plugin lack is compared only where both sides know it.
#[test]
fn what_was_not_recorded_is_not_compared() {
    type Change = fn(&mut GpuNode<UserGpuId>, bool);
    let changes: [(&str, Change); 4] = [
        ("gfx_target_version", |g, one| {
            g.gfx_target_version = Some(if one { 90_010 } else { 90_402 });
        }),
        ("num_xcc", |g, one| {
            g.num_xcc = Some(if one { 1 } else { 8 });
        }),
        ("compute_partition", |g, one| {
            g.compute_partition = Some(if one {
                ComputePartition::Spx
            } else {
                ComputePartition::Cpx
            });
        }),
        ("memory_partition", |g, one| {
            g.memory_partition = Some(if one {
                MemoryPartition::Nps1
            } else {
                MemoryPartition::Nps4
            });
        }),
    ];
    for (property, change) in changes {
        let unknown = gpu(1, UserGpuId(1), 7);
        let (mut one, mut other) = (unknown.clone(), unknown.clone());
        change(&mut one, true);
        change(&mut other, false);
        let checks = Checks::default();
        assert!(compare_gpus(&one, &unknown, &checks).is_empty());
        assert!(compare_gpus(&unknown, &one, &checks).is_empty());
        assert!(compare_gpus(&one, &one, &checks).is_empty());
        let found = compare_gpus(&one, &other, &checks);
        let found: Vec<_> = found
            .iter()
            .map(|d| (d.property, d.rule, d.switch))
            .collect();
        assert_eq!(found, [(property, Rule::Equal, None)]);
    }
}

/// What is compared and nothing else: places and names may all differ.
#[test]
fn places_and_names_are_not_compared() {
    let source = gpu(1, UserGpuId(1), 7);
    let destination = GpuNode {
        domain: 5,
        hive_id: HiveId::from_raw(9),
        render_minor: RenderMinor(190),
        location_id: Some(3),
        unique_id: Some(4),
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
