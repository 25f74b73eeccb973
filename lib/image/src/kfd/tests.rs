use proptest::prelude::*;
use rocferry_topology::{
    CpuNode, GpuNode, GpuProperties, HiveId, Link, LinkKind, Node, NodeId, RenderMinor, Vram,
};

use super::*;
use crate::{GpuPages, PagePart};

mod reject;

const GPU: UserGpuId = UserGpuId(0xa12f);

fn private_data(gpus: usize, bos: usize) -> Vec<u8> {
    let mut data = vec![0; 8 + 8 * gpus + 272 * bos];
    data[0] = 1;
    data
}

fn gpu(node: u32, id: UserGpuId) -> GpuNode<UserGpuId> {
    GpuNode {
        node: NodeId(node),
        id,
        render_minor: RenderMinor(128),
        domain: 0,
        hive_id: HiveId::from_raw(0x1_0000_0000),
        properties: GpuProperties {
            simd_count: 416,
            mem_banks_count: 1,
            caches_count: 224,
            io_links_count: 2,
            max_waves_per_simd: 8,
            lds_size_in_kb: 64,
            num_gws: 64,
            wave_front_size: 64,
            array_count: 8,
            simd_arrays_per_engine: 1,
            cu_per_simd_array: 14,
            simd_per_cu: 4,
            max_slots_scratch_cu: 32,
            vendor_id: 0x1002,
            device_id: 0x740f,
            num_sdma_engines: 2,
            num_sdma_xgmi_engines: 3,
            num_sdma_queues_per_engine: 8,
            num_cp_queues: 24,
            fw_version: 78,
            capability: 0x8000_0000,
            sdma_fw_version: 8,
            vram: Some(Vram {
                public: true,
                size: 1 << 36,
            }),
        },
        location_id: None,
        unique_id: None,
        gfx_target_version: None,
        num_xcc: None,
        compute_partition: None,
        memory_partition: None,
        // The second link leads to a GPU that is not the process's.
        links: vec![
            Link::new(LinkKind::Pcie, NodeId(0)),
            Link::new(LinkKind::Xgmi, NodeId(7)),
        ],
    }
}

fn bo(gpu: UserGpuId, size: u64, flags: BoFlags) -> BoEntry {
    BoEntry {
        addr: 0x7f00_0000_0000,
        size,
        offset: 0x1_0000_0000,
        flags,
        gpu,
        handle: None,
    }
}

/// One CPU, one GPU, two objects.
fn sample() -> KfdImage {
    let links = vec![
        Link::new(LinkKind::Other(5), NodeId(2)),
        Link::new(LinkKind::Pcie, NodeId(2)),
    ];
    let cpu = CpuNode {
        node: NodeId(0),
        cpu_cores: 128,
        links,
    };
    KfdImage {
        pid: TaskPid(300),
        system: System::new(vec![Node::Gpu(gpu(2, GPU)), Node::Cpu(cpu)], vec![]),
        bos: vec![
            bo(GPU, 0x20_0000, BoFlags::VRAM | BoFlags::WRITABLE),
            bo(GPU, 4096, BoFlags::USERPTR),
        ],
        num_objects: 0,
        shared_mem_size: 0,
        shared_mem_magic: 0,
        priv_data: private_data(1, 2),
    }
}

/// Written by hand from the schema: every required field in ascending order, zeros included.
fn golden() -> Vec<u8> {
    let gpu = [
        &[0x08, 2][..],                                    // node_id
        &[0x10, 0xaf, 0xc2, 0x02],                         // gpu_id 0xa12f
        &[0x18, 0],                                        // cpu_cores_count
        &[0x20, 0xa0, 0x03],                               // simd_count 416
        &[0x28, 1],                                        // mem_banks_count
        &[0x30, 0xe0, 0x01],                               // caches_count 224
        &[0x38, 2],                                        // io_links_count, the raw one
        &[0x40, 8],                                        // max_waves_per_simd
        &[0x48, 64],                                       // lds_size_in_kb
        &[0x50, 0],                                        // gds_size_in_kb
        &[0x58, 64],                                       // num_gws
        &[0x60, 64],                                       // wave_front_size
        &[0x68, 8],                                        // array_count
        &[0x70, 1],                                        // simd_arrays_per_engine
        &[0x78, 14],                                       // cu_per_simd_array
        &[0x80, 0x01, 4],                                  // simd_per_cu
        &[0x88, 0x01, 32],                                 // max_slots_scratch_cu
        &[0x90, 0x01, 0x82, 0x20],                         // vendor_id 0x1002
        &[0x98, 0x01, 0x8f, 0xe8, 0x01],                   // device_id 0x740f
        &[0xa0, 0x01, 0],                                  // domain
        &[0xa8, 0x01, 0x80, 0x01],                         // drm_render_minor 128
        &[0xb0, 0x01, 0x80, 0x80, 0x80, 0x80, 0x10],       // hive_id 2^32
        &[0xb8, 0x01, 2],                                  // num_sdma_engines
        &[0xc0, 0x01, 3],                                  // num_sdma_xgmi_engines
        &[0xc8, 0x01, 8],                                  // num_sdma_queues_per_engine
        &[0xd0, 0x01, 24],                                 // num_cp_queues
        &[0xd8, 0x01, 78],                                 // fw_version
        &[0xe0, 0x01, 0x80, 0x80, 0x80, 0x80, 0x08],       // capability 2^31
        &[0xe8, 0x01, 8],                                  // sdma_fw_version
        &[0xf0, 0x01, 1],                                  // vram_public
        &[0xf8, 0x01, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02], // vram_size 2^36
        &[0x82, 0x02, 4, 0x08, 2, 0x10, 0],                // iolinks: PCIe to node 0
    ]
    .concat();
    let cpu = [
        &[0x08, 0, 0x10, 0, 0x18, 0x80, 0x01][..], // node_id, gpu_id, cpu_cores_count 128
        &[
            0x20, 0, 0x28, 0, 0x30, 0, 0x38, 0, 0x40, 0, 0x48, 0, 0x50, 0, 0x58, 0,
        ],
        &[
            0x60, 0, 0x68, 0, 0x70, 0, 0x78, 0, 0x80, 0x01, 0, 0x88, 0x01, 0, 0x90, 0x01, 0,
        ],
        &[
            0x98, 0x01, 0, 0xa0, 0x01, 0, 0xa8, 0x01, 0, 0xb0, 0x01, 0, 0xb8, 0x01, 0,
        ],
        &[
            0xc0, 0x01, 0, 0xc8, 0x01, 0, 0xd0, 0x01, 0, 0xd8, 0x01, 0, 0xe0, 0x01, 0,
        ],
        &[0xe8, 0x01, 0, 0xf0, 0x01, 0, 0xf8, 0x01, 0],
        &[0x82, 0x02, 4, 0x08, 2, 0x10, 2], // iolinks: PCIe to node 2, not the one of type 5
    ]
    .concat();
    let bo = |size: &[u8], flags: &[u8]| {
        [
            &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0xe0, 0x1f, 0x10][..], // addr 0x7f0000000000, size
            size,
            &[0x18, 0x80, 0x80, 0x80, 0x80, 0x10, 0x20], // offset 2^32, alloc_flags
            flags,
            &[0x28, 0xaf, 0xc2, 0x02],             // gpu_id
            &[0x30, 0xff, 0xff, 0xff, 0xff, 0x0f], // handle: none
        ]
        .concat()
    };
    let nested = |key: u8, content: Vec<u8>| {
        let len = u8::try_from(content.len()).expect("short");
        let len = if len < 128 { vec![len] } else { vec![len, 1] };
        [vec![key], len, content].concat()
    };
    [
        vec![0x08, 0xac, 0x02, 0x10, 1, 0x18, 1], // pid 300, num_of_gpus, num_of_cpus
        nested(0x22, gpu),
        nested(0x22, cpu),
        vec![0x28, 2], // num_of_bos
        nested(
            0x32,
            bo(&[0x80, 0x80, 0x80, 0x01], &[0x81, 0x80, 0x80, 0x80, 0x08]),
        ),
        nested(0x32, bo(&[0x80, 0x20], &[0x04])),
        vec![0x38, 0, 0x40, 0, 0x48, 0], // num_of_objects, shared_mem_size, shared_mem_magic
        [vec![0x52, 0xb0, 0x04], private_data(1, 2)].concat(), // priv_data of 560 bytes
    ]
    .concat()
}

#[test]
fn the_encoding_is_that_of_the_c_plugin() {
    assert_eq!(sample().encode(), golden());
}

#[test]
fn what_is_encoded_decodes() {
    let decoded = KfdImage::decode(&golden()).expect("golden");
    let mut expected = sample();
    // Only links that are valid and of a kept kind are on disk.
    for node in &mut expected.system.nodes {
        match node {
            Node::Cpu(cpu) => cpu.links.retain(|link| link.kind == LinkKind::Pcie),
            Node::Gpu(gpu) => gpu.links.retain(|link| link.kind == LinkKind::Pcie),
        }
    }
    assert_eq!(decoded, expected);
    assert!(decoded.system.gpus().all(|gpu| gpu.links[0].bidirectional));
}

#[test]
fn images_without_handles_decode_and_handles_survive() {
    // As the C plugins up to CRIU 4.2 write them.
    let mut message = wire(&sample());
    for bo in &mut message.bo_entries {
        bo.handle = None;
    }
    let decoded = KfdImage::decode(&message.encode_to_vec()).expect("older image");
    assert_eq!(decoded.bos, sample().bos);
    // As newer ones write them.
    message.bo_entries[0].handle = Some(9);
    let decoded = KfdImage::decode(&message.encode_to_vec()).expect("newer image");
    assert_eq!(decoded.bos[0].handle, Some(9));
    assert_eq!(KfdImage::decode(&decoded.encode()), Ok(decoded));
}

#[test]
fn a_gpu_without_frame_buffer_keeps_that() {
    let mut image = sample();
    let mut nodes = image.system.nodes;
    if let Node::Gpu(gpu) = &mut nodes[0] {
        gpu.properties.vram = None;
    }
    image.system = System::new(nodes, vec![]);
    let decoded = KfdImage::decode(&image.encode()).expect("decodes");
    assert_eq!(
        decoded.system.gpus().next().map(|gpu| gpu.properties.vram),
        Some(None)
    );
}

#[test]
fn pages_lie_one_after_the_other_in_the_file_of_their_gpu() {
    let (first, second, third) = (UserGpuId(1), UserGpuId(2), UserGpuId(3));
    let image = KfdImage {
        system: System::new(
            [first, second, third]
                .map(|id| Node::Gpu(gpu(id.get(), id)))
                .to_vec(),
            vec![],
        ),
        bos: vec![
            bo(second, 0x3000, BoFlags::VRAM),
            bo(first, 0x1000, BoFlags::GTT | BoFlags::WRITABLE),
            bo(second, 0x9000, BoFlags::USERPTR),
            bo(second, 0x2000, BoFlags::DOORBELL),
            bo(second, 0x1000, BoFlags::MMIO_REMAP),
            bo(second, 0x5000, BoFlags::GTT),
            bo(first, 0x7000, BoFlags::VRAM | BoFlags::PUBLIC),
        ],
        priv_data: private_data(3, 7),
        ..sample()
    };
    assert_eq!(image.validate(), Ok(()));
    let part = |bo, offset, size| PagePart { bo, offset, size };
    let layout = image.pages_layout();
    assert_eq!(
        layout.files,
        [
            GpuPages {
                gpu: first,
                parts: vec![part(1, 0, 0x1000), part(6, 0x1000, 0x7000)],
                total: 0x8000
            },
            // Offsets start anew in each file.
            GpuPages {
                gpu: second,
                parts: vec![part(0, 0, 0x3000), part(5, 0x3000, 0x5000)],
                total: 0x8000
            },
            GpuPages {
                gpu: third,
                parts: vec![],
                total: 0
            },
        ]
    );
    assert_eq!(layout.file(third).map(|file| file.total), Some(0));
    assert_eq!(layout.file(UserGpuId(4)), None);
}

fn wire(image: &KfdImage) -> CriuKfd {
    CriuKfd::decode(image.encode().as_slice()).expect("own encoding")
}

/// Changes the message and returns what the decoder says.
fn changed(change: impl FnOnce(&mut CriuKfd)) -> Result<KfdImage, FormatError> {
    let mut message = wire(&sample());
    change(&mut message);
    KfdImage::decode(&message.encode_to_vec())
}

proptest! {
    #[test]
    fn no_content_panics(content in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = KfdImage::decode(&content);
    }

    /// Damage to a good image is refused or gives an image that validates.
    #[test]
    fn no_damage_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let mut content = golden();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        for content in [&content[..], &content[..cut.index(content.len())]] {
            if let Ok(image) = KfdImage::decode(content) {
                prop_assert_eq!(image.validate(), Ok(()));
                let layout = image.pages_layout();
                prop_assert_eq!(layout.files.len(), image.system.gpus().count());
                prop_assert_eq!(KfdImage::decode(&image.encode()).map(|i| i.bos), Ok(image.bos));
            }
        }
    }

    /// The streaming decoder sees what the derived one sees.
    #[test]
    fn agrees_with_the_derived_decoder(
        bos in prop::collection::vec((0u64..1 << 47, 1u64..1 << 30, any::<u64>(), any::<u32>(), prop::option::of(any::<u32>())), 0..20),
        numbers in (any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>()),
    ) {
        let image = KfdImage {
            pid: TaskPid(numbers.0),
            bos: bos.iter().map(|(addr, pages, offset, flags, handle)| BoEntry {
                addr: *addr,
                size: pages * PAGE_SIZE,
                offset: *offset,
                flags: BoFlags::from_bits_retain(*flags),
                gpu: GPU,
                handle: handle.filter(|handle| *handle != u32::MAX),
            }).collect(),
            num_objects: numbers.1,
            shared_mem_size: numbers.2,
            shared_mem_magic: numbers.3,
            priv_data: private_data(1, bos.len()),
            ..sample()
        };
        let decoded = KfdImage::decode(&image.encode()).expect("valid");
        prop_assert_eq!(&decoded.bos, &image.bos);
        prop_assert_eq!(
            (decoded.pid.0, decoded.num_objects, decoded.shared_mem_size, decoded.shared_mem_magic),
            numbers
        );
        prop_assert_eq!(decoded.priv_data, image.priv_data.clone());
        prop_assert_eq!(wire(&image).bo_entries, image.bos.iter().map(bo_entry).collect::<Vec<_>>());
    }
}
