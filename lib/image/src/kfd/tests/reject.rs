//! What must not be used.

use super::*;

/// Every required field of every message, removed alone, is missed by name.
#[test]
fn every_required_field_is_missed() {
    fn remove(message: &[u8], tag: u32) -> Vec<u8> {
        // Fields of the sample are short: key, then a varint or a length and bytes.
        let mut out = Vec::new();
        let mut rest = message;
        while !rest.is_empty() {
            let before = rest;
            let (number, wire_type) = prost::encoding::decode_key(&mut rest).expect("key");
            let context = prost::encoding::DecodeContext::default();
            prost::encoding::skip_field(wire_type, number, &mut rest, context).expect("field");
            if number != tag {
                out.extend_from_slice(&before[..before.len() - rest.len()]);
            }
        }
        out
    }
    let missing = |message, index, field| {
        Err(FormatError::MissingField {
            message,
            index,
            field,
        })
    };
    for (tag, field) in [
        (1, "pid"),
        (2, "num_of_gpus"),
        (3, "num_of_cpus"),
        (5, "num_of_bos"),
        (7, "num_of_objects"),
        (8, "shared_mem_size"),
        (9, "shared_mem_magic"),
        (10, "priv_data"),
    ] {
        let decoded = KfdImage::decode(&remove(&golden(), tag));
        assert_eq!(decoded, missing("criu_kfd", None, field));
    }
    for (tag, field) in [
        (1, "addr"),
        (2, "size"),
        (3, "offset"),
        (4, "alloc_flags"),
        (5, "gpu_id"),
    ] {
        let decoded = changed(|message| {
            let bo = remove(&message.bo_entries[1].encode_to_vec(), tag);
            message.bo_entries[1] = KfdBoEntry::decode(bo.as_slice()).expect("entry");
        });
        assert_eq!(decoded, missing("kfd_bo_entry", Some(1), field));
    }
    let fields = [
        "node_id",
        "gpu_id",
        "cpu_cores_count",
        "simd_count",
        "mem_banks_count",
        "caches_count",
        "io_links_count",
        "max_waves_per_simd",
        "lds_size_in_kb",
        "gds_size_in_kb",
        "num_gws",
        "wave_front_size",
        "array_count",
        "simd_arrays_per_engine",
        "cu_per_simd_array",
        "simd_per_cu",
        "max_slots_scratch_cu",
        "vendor_id",
        "device_id",
        "domain",
        "drm_render_minor",
        "hive_id",
        "num_sdma_engines",
        "num_sdma_xgmi_engines",
        "num_sdma_queues_per_engine",
        "num_cp_queues",
        "fw_version",
        "capability",
        "sdma_fw_version",
        "vram_public",
        "vram_size",
    ];
    for (tag, field) in (1..).zip(fields) {
        for node in 0..2 {
            let decoded = changed(|message| {
                let entry = remove(&message.device_entries[node].encode_to_vec(), tag);
                message.device_entries[node] =
                    KfdDeviceEntry::decode(entry.as_slice()).expect("entry");
            });
            assert_eq!(decoded, missing("kfd_device_entry", Some(node), field));
        }
    }
    let decoded = changed(|message| message.device_entries[0].iolinks[0].link_type = None);
    assert_eq!(decoded, missing("dev_iolink", Some(0), "type"));
    let decoded = changed(|message| message.device_entries[0].iolinks[0].node_to_id = None);
    assert_eq!(decoded, missing("dev_iolink", Some(0), "node_to_id"));
}

#[test]
fn counts_are_not_trusted() {
    let count = |field, stated, actual| {
        Err(FormatError::Count {
            field,
            stated,
            actual,
        })
    };
    assert_eq!(
        changed(|m| m.num_of_gpus = Some(2)),
        count("num_of_gpus", 2, 1)
    );
    assert_eq!(
        changed(|m| m.num_of_gpus = Some(0)),
        count("num_of_gpus", 0, 1)
    );
    assert_eq!(
        changed(|m| m.num_of_cpus = Some(u32::MAX)),
        count("num_of_cpus", 0xffff_ffff, 1)
    );
    assert_eq!(
        changed(|m| m.num_of_bos = Some(3)),
        count("num_of_bos", 3, 2)
    );
    assert_eq!(
        changed(|m| m.num_of_bos = Some(1)),
        count("num_of_bos", 1, 2)
    );
    assert_eq!(
        changed(|m| m.num_of_bos = Some(1 << 32)),
        Err(FormatError::InvalidValue {
            message: "criu_kfd",
            index: None,
            field: "num_of_bos",
            value: 1 << 32
        })
    );
    // Right in sum, wrong in kind.
    let both = changed(|m| (m.num_of_gpus, m.num_of_cpus) = (Some(0), Some(2)));
    assert_eq!(both, count("num_of_gpus", 0, 1));
}

#[test]
fn nodes_must_be_sane() {
    assert_eq!(
        changed(|m| {
            m.device_entries.remove(0);
            m.num_of_gpus = Some(0);
        }),
        Err(FormatError::NoGpus)
    );
    assert_eq!(
        changed(|m| m.device_entries[1].node_id = Some(2)),
        Err(FormatError::DuplicateNode { node: NodeId(2) })
    );
    let second = |m: &mut CriuKfd| {
        let mut copy = m.device_entries[0].clone();
        copy.node_id = Some(3);
        m.device_entries.push(copy);
        m.num_of_gpus = Some(2);
    };
    assert_eq!(changed(second), Err(FormatError::DuplicateGpu { gpu: GPU }));
    assert_eq!(
        changed(|m| m.device_entries[0].vram_public = Some(2)),
        Err(FormatError::InvalidValue {
            message: "kfd_device_entry",
            index: Some(0),
            field: "vram_public",
            value: 2
        })
    );
    let mut image = sample();
    image.system = System::new(vec![Node::Gpu(gpu(1, UserGpuId(0)))], vec![]);
    assert!(matches!(
        image.validate(),
        Err(FormatError::InvalidValue {
            field: "gpu_id",
            ..
        })
    ));
}

#[test]
fn links_to_nodes_that_are_not_there_are_marked_and_never_followed() {
    let decoded = changed(|m| {
        for kind in [2, 11] {
            m.device_entries[0].iolinks.push(crate::wire::DevIolink {
                link_type: Some(kind),
                node_to_id: Some(999),
            });
        }
    })
    .expect("usable");
    let gpu = decoded.system.gpu(GPU).expect("GPU");
    assert_eq!(
        gpu.links.iter().map(|link| link.valid).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert_eq!(gpu.valid_link_count(), 1);
    assert!(decoded.system.hives().is_empty());
}

#[test]
fn buffer_objects_must_be_sane() {
    let bo = |change: fn(&mut KfdBoEntry)| changed(|m| change(&mut m.bo_entries[1]));
    assert_eq!(
        bo(|bo| bo.gpu_id = Some(0xbbbb)),
        Err(FormatError::BoUnknownGpu {
            index: 1,
            gpu: UserGpuId(0xbbbb)
        })
    );
    // Node 0 has gpu_id 0, but is no GPU.
    assert_eq!(
        bo(|bo| bo.gpu_id = Some(0)),
        Err(FormatError::BoUnknownGpu {
            index: 1,
            gpu: UserGpuId(0)
        })
    );
    for size in [0, 1, 4095, 4097] {
        let mut message = wire(&sample());
        message.bo_entries[1].size = Some(size);
        let decoded = KfdImage::decode(&message.encode_to_vec());
        assert_eq!(decoded, Err(FormatError::BoSize { index: 1, size }));
    }
    assert_eq!(
        bo(|bo| bo.addr = Some(u64::MAX - 4095)),
        Err(FormatError::BoWraps {
            index: 1,
            addr: u64::MAX - 4095,
            size: 4096
        })
    );
    bo(|bo| bo.addr = Some(u64::MAX - 4096)).expect("fits");
    let huge = changed(|m| {
        for bo in &mut m.bo_entries {
            (bo.addr, bo.size) = (Some(0), Some(1 << 63));
        }
    });
    assert_eq!(huge, Err(FormatError::BoSumOverflow));
}

#[test]
fn private_data_must_fit_the_counts() {
    assert_eq!(
        changed(|m| m.priv_data = Some(vec![])),
        Err(FormatError::PrivateDataShort {
            expected: 560,
            actual: 0
        })
    );
    let short = changed(|m| m.priv_data.as_mut().expect("data").truncate(559));
    assert_eq!(
        short,
        Err(FormatError::PrivateDataShort {
            expected: 560,
            actual: 559
        })
    );
    changed(|m| m.priv_data.as_mut().expect("data").push(0)).expect("longer is fine");
    for (at, version) in [(0, 3), (1, 0x201)] {
        let decoded =
            changed(|m| m.priv_data.as_mut().expect("data")[at] = if at == 0 { 3 } else { 2 });
        assert_eq!(decoded, Err(FormatError::PrivateDataVersion { version }));
    }
}

#[test]
fn hostile_lists_cost_no_memory() {
    // Millions of empty entries: the first one is refused.
    let content = [0x32, 0].repeat(1 << 20);
    let field = "addr";
    assert_eq!(
        KfdImage::decode(&content),
        Err(FormatError::MissingField {
            message: "kfd_bo_entry",
            index: Some(0),
            field
        })
    );
    // A node with a million empty links is refused before it is decoded.
    let mut node = wire(&sample()).device_entries[0].encode_to_vec();
    node.extend([0x82, 0x02, 0].repeat(1 << 20));
    let mut content = vec![0x22];
    prost::encoding::encode_varint(node.len() as u64, &mut content);
    content.extend(node);
    assert!(matches!(
        KfdImage::decode(&content),
        Err(FormatError::Protobuf { .. })
    ));
    // More nodes than a machine has.
    let mut message = wire(&sample());
    for node in 10..5000 {
        let mut copy = message.device_entries[1].clone();
        copy.node_id = Some(node);
        message.device_entries.push(copy);
    }
    message.num_of_cpus = Some(4991);
    let error = FormatError::TooMany {
        field: "device_entries",
        limit: 4096,
    };
    assert_eq!(KfdImage::decode(&message.encode_to_vec()), Err(error));
    // A length past the end.
    assert!(matches!(
        KfdImage::decode(&[0x52, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        Err(FormatError::Protobuf { .. })
    ));
    // A known field of another type.
    assert!(matches!(
        KfdImage::decode(&[0x0a, 0]),
        Err(FormatError::Protobuf { .. })
    ));
    assert!(matches!(
        KfdImage::decode(&[0x30, 0]),
        Err(FormatError::Protobuf { .. })
    ));
}
