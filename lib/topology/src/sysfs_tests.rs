use std::ffi::OsString;
use std::fs::{self, File};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::UserGpuId;

/// A tree under construction.
struct Files(BTreeMap<PathBuf, Option<Vec<u8>>>);

impl Files {
    fn new() -> Self {
        let mut tree = Self(BTreeMap::new());
        tree.write("generation_id", "2\n");
        tree.write(
            "system_properties",
            "platform_oem 0\nplatform_id 0\nplatform_rev 0\n",
        );
        tree
    }

    fn write(&mut self, path: &str, text: impl AsRef<[u8]>) {
        self.0.insert(path.into(), Some(text.as_ref().to_vec()));
    }

    /// Removes a file, or a directory with all that is in it.
    fn remove(&mut self, path: &str) {
        self.0.retain(|known, _| !known.starts_with(path));
    }

    /// As real files.
    fn on_disk(&self) -> TempDir {
        let dir = TempDir::new().expect("directory");
        fs::create_dir(dir.path().join("nodes")).expect("nodes");
        for (path, text) in &self.0 {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            fs::write(path, text.as_ref().expect("readable")).expect("file");
        }
        dir
    }

    fn cpu(&mut self, node: u32) {
        self.write(&format!("nodes/{node}/gpu_id"), "0\n");
        self.write(&format!("nodes/{node}/name"), "\n");
        self.write(
            &format!("nodes/{node}/properties"),
            "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\nio_links_count 1\n",
        );
        self.write(
            &format!("nodes/{node}/mem_banks/0/properties"),
            "heap_type 0\nsize_in_bytes 1000000\nflags 0\nwidth 0\nmem_clk_max 0\n",
        );
    }

    fn gpu(&mut self, node: u32, id: u32) {
        self.write(&format!("nodes/{node}/gpu_id"), format!("{id}\n"));
        self.write(&format!("nodes/{node}/properties"), GPU);
        self.write(
            &format!("nodes/{node}/mem_banks/0/properties"),
            "heap_type 4\nsize_in_bytes 65536\n",
        );
        self.write(
            &format!("nodes/{node}/mem_banks/1/properties"),
            "heap_type 1\nsize_in_bytes 68702699520\nflags 0\nwidth 4096\nmem_clk_max 1600\n",
        );
        self.link(node, 0, 2, 0);
    }

    fn link(&mut self, node: u32, number: u32, kind: u32, to: u32) {
        self.write(
            &format!("nodes/{node}/io_links/{number}/properties"),
            format!(
                "type {kind}\nversion_major 0\nnode_from {node}\nnode_to {to}\nweight 20\nflags 3\n"
            ),
        );
    }

    fn read(&self) -> Result<System, ReadError> {
        System::from_files(&self.0)
    }

    fn error(&self) -> String {
        self.read().expect_err("refused").to_string()
    }
}

fn disk_error(dir: &TempDir) -> String {
    let error = System::read(dir.path()).expect_err("refused").to_string();
    error.replace(&format!("{}/", dir.path().display()), "")
}

/// Values of an MI210 as its driver prints them, in the order of kernel 6.12.
const GPU: &str = "cpu_cores_count 0\nsimd_count 416\nmem_banks_count 1\ncaches_count 224\n\
io_links_count 2\np2p_links_count 0\ncpu_core_id_base 0\nsimd_id_base 2147487744\n\
max_waves_per_simd 8\nlds_size_in_kb 64\ngds_size_in_kb 0\nnum_gws 64\nwave_front_size 64\n\
array_count 8\nsimd_arrays_per_engine 1\ncu_per_simd_array 14\nsimd_per_cu 4\n\
max_slots_scratch_cu 32\ngfx_target_version 90010\nvendor_id 4098\ndevice_id 29711\n\
location_id 25344\ndomain 0\ndrm_render_minor 128\nhive_id 1234605616436508552\n\
num_sdma_engines 2\nnum_sdma_xgmi_engines 3\nnum_sdma_queues_per_engine 8\nnum_cp_queues 24\n\
max_engine_clk_fcompute 1700\nlocal_mem_size 0\nfw_version 78\ncapability 746660480\n\
debug_prop 1495\nsdma_fw_version 8\nunique_id 9837654321234567890\nnum_xcc 1\n\
max_engine_clk_ccompute 3000\n";

#[test]
fn a_whole_tree() {
    let mut tree = Files::new();
    // Written out of order, with things in between that are no nodes.
    tree.gpu(10, 0xabcd);
    tree.cpu(0);
    tree.gpu(2, 0x1234);
    tree.write("nodes/readme/properties", "nonsense");
    tree.link(0, 0, 2, 2);
    tree.link(2, 1, 11, 10);
    tree.link(10, 1, 11, 2);
    tree.link(10, 2, 1, 77);
    let system = tree.read().expect("tree");
    assert_eq!(
        System::read(tree.on_disk().path()).expect("the same on disk"),
        system
    );
    let order: Vec<u32> = system.nodes.iter().map(|node| node.id().get()).collect();
    assert_eq!(order, [0, 2, 10]);
    assert_eq!(system.hives(), [[NodeId(2), NodeId(10)]]);
    assert_eq!(system.masked, []);
    assert_eq!(
        system.cpus().map(|cpu| cpu.cpu_cores).collect::<Vec<_>>(),
        [64]
    );
    let link = |kind, to, bidirectional| Link {
        kind,
        to: NodeId(to),
        valid: true,
        bidirectional,
    };
    let expected = GpuNode {
        node: NodeId(2),
        id: ActualGpuId(0x1234),
        render_minor: RenderMinor(128),
        domain: 0,
        hive_id: HiveId::from_raw(1_234_605_616_436_508_552),
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
            vendor_id: 4098,
            device_id: 29711,
            num_sdma_engines: 2,
            num_sdma_xgmi_engines: 3,
            num_sdma_queues_per_engine: 8,
            num_cp_queues: 24,
            fw_version: 78,
            capability: 746_660_480,
            sdma_fw_version: 8,
            vram: Some(Vram {
                public: true,
                size: 68_702_699_520,
            }),
        },
        location_id: Some(25344),
        unique_id: Some(9_837_654_321_234_567_890),
        gfx_target_version: Some(90010),
        num_xcc: Some(1),
        compute_partition: None,
        memory_partition: None,
        links: vec![
            link(LinkKind::Pcie, 0, true),
            link(LinkKind::Xgmi, 10, true),
        ],
    };
    assert_eq!(system.gpu(ActualGpuId(0x1234)), Some(&expected));
    let other = system.gpu(ActualGpuId(0xabcd)).expect("second GPU");
    // The CPU has no link to it; the link of another type leads nowhere.
    assert_eq!(other.links[0], link(LinkKind::Pcie, 0, false));
    assert_eq!(other.links[2], Link::new(LinkKind::Other(1), NodeId(77)));
    assert_eq!(other.valid_link_count(), 2);
    assert_eq!(
        system.gpu_by_minor(RenderMinor(128)).map(|gpu| gpu.node),
        Some(NodeId(2))
    );
}

#[test]
fn a_masked_gpu_is_listed_and_its_links_lead_nowhere() {
    let mut tree = Files::new();
    tree.cpu(0);
    tree.gpu(1, 0x1111);
    tree.gpu(2, 0x2222);
    tree.link(1, 1, 11, 2);
    tree.link(2, 1, 11, 1);
    for masked in [
        "nodes/2/gpu_id",
        "nodes/2/properties",
        "nodes/2/mem_banks/1/properties",
        "nodes/2/io_links/1/properties",
    ] {
        let mut tree = Files(tree.0.clone());
        tree.0.insert(masked.into(), None);
        let system = tree.read().expect("readable rest");
        assert_eq!(system.masked, [NodeId(2)], "{masked}");
        assert_eq!(
            system.gpus().map(|gpu| gpu.id).collect::<Vec<_>>(),
            [ActualGpuId(0x1111)]
        );
        let gpu = system.gpu(ActualGpuId(0x1111)).expect("kept");
        assert_eq!(
            gpu.links.iter().map(|l| l.valid).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(system.hives(), Vec::<Vec<NodeId>>::new());
        assert_eq!(
            system.rename(|gpu| Some(UserGpuId(gpu.id.get()))).masked,
            [NodeId(2)]
        );
    }
}

#[test]
fn unknown_lines_are_skipped_and_optional_properties_may_be_absent() {
    let mut tree = Files::new();
    tree.cpu(0);
    tree.gpu(1, 0x1111);
    tree.remove("nodes/1/io_links");
    tree.remove("nodes/1/mem_banks");
    let text = "\nnew_property 12 13 text\n\u{fffd}\u{7f}\nsimd_count 4\nvendor_id 4098\n\
                device_id 1\n  drm_render_minor   140  \nnegative -5\nhuge 99999999999999999999999\n";
    tree.write(
        "nodes/1/properties",
        [text.as_bytes(), b"\xff\xfe\n"].concat(),
    );
    let system = tree.read().expect("tolerant");
    let gpu = system.gpu(ActualGpuId(0x1111)).expect("GPU");
    assert_eq!(gpu.render_minor, RenderMinor(140));
    assert_eq!((gpu.properties.simd_count, gpu.properties.vram), (4, None));
    assert_eq!(
        (gpu.gfx_target_version, gpu.unique_id, gpu.num_xcc),
        (None, None, None)
    );
    assert_eq!((gpu.location_id, gpu.hive_id), (None, None));
    assert!(gpu.links.is_empty());
}

#[test]
fn the_first_frame_buffer_bank_counts() {
    /// Heap type and size of each.
    type Banks = &'static [(u32, u64)];
    let cases: [(Banks, Option<Vram>); 5] = [
        (
            &[(2, 5), (1, 6)],
            Some(Vram {
                public: false,
                size: 5,
            }),
        ),
        (
            &[(3, 5), (1, 6)],
            Some(Vram {
                public: true,
                size: 6,
            }),
        ),
        (&[(0, 5), (4, 6)], None),
        (&[(1, 0), (1, 6)], None),
        (&[], None),
    ];
    for (banks, expected) in cases {
        let mut tree = Files::new();
        tree.gpu(1, 0x1111);
        tree.remove("nodes/1/mem_banks");
        for (number, (heap, size)) in banks.iter().enumerate() {
            tree.write(
                &format!("nodes/1/mem_banks/{number}/properties"),
                format!("heap_type {heap}\nsize_in_bytes {size}\n"),
            );
        }
        let system = tree.read().expect("tree");
        assert_eq!(
            system.gpus().next().map(|gpu| gpu.properties.vram),
            Some(expected)
        );
    }
    // Ten banks: 9 comes before 10.
    let mut tree = Files::new();
    tree.gpu(1, 0x1111);
    tree.remove("nodes/1/mem_banks");
    tree.write(
        "nodes/1/mem_banks/10/properties",
        "heap_type 1\nsize_in_bytes 10\n",
    );
    tree.write(
        "nodes/1/mem_banks/9/properties",
        "heap_type 1\nsize_in_bytes 9\n",
    );
    let vram = tree
        .read()
        .expect("tree")
        .gpus()
        .next()
        .and_then(|gpu| gpu.properties.vram);
    assert_eq!(
        vram,
        Some(Vram {
            public: true,
            size: 9
        })
    );
}

#[test]
fn malformed_lines_are_named_with_path_and_line() {
    for (from, to, message) in [
        (
            "simd_count 416",
            "simd_count",
            "nodes/1/properties:2: expected a name and an unsigned number: \"simd_count\"",
        ),
        (
            "simd_count 416",
            "simd_count x",
            "nodes/1/properties:2: expected a name and an unsigned number: \"simd_count x\"",
        ),
        (
            "simd_count 416",
            "simd_count -1",
            "nodes/1/properties:2: expected a name and an unsigned number: \"simd_count -1\"",
        ),
        (
            "simd_count 416",
            "simd_count +1",
            "nodes/1/properties:2: expected a name and an unsigned number: \"simd_count +1\"",
        ),
        (
            "simd_count 416",
            "simd_count 4 16",
            "nodes/1/properties:2: expected a name and an unsigned number: \"simd_count 4 16\"",
        ),
        (
            "simd_count 416",
            "simd_count 4294967296",
            "nodes/1/properties:2: number too large: \"simd_count 4294967296\"",
        ),
        (
            "num_gws 64",
            "simd_count 416",
            "nodes/1/properties:12: property given twice: \"simd_count 416\"",
        ),
        (
            "simd_count 416\n",
            "",
            "nodes/1/properties: no property simd_count",
        ),
        (
            "device_id 29711\n",
            "",
            "nodes/1/properties: no property device_id",
        ),
        (
            "vendor_id 4098\n",
            "",
            "nodes/1/properties: no property vendor_id",
        ),
        (
            "drm_render_minor 128\n",
            "",
            "nodes/1/properties: no property drm_render_minor",
        ),
    ] {
        let mut tree = Files::new();
        tree.gpu(1, 0x1111);
        tree.write("nodes/1/properties", GPU.replace(from, to));
        assert_eq!(tree.error(), message);
    }
}

#[test]
fn malformed_files_are_named() {
    let mut tree = Files::new();
    tree.gpu(1, 0x1111);
    tree.write("nodes/1/gpu_id", "12x\n");
    assert_eq!(
        tree.error(),
        "nodes/1/gpu_id:1: expected a gpu_id: \"12x\\n\""
    );
    tree.write("nodes/1/gpu_id", "");
    assert_eq!(tree.error(), "nodes/1/gpu_id:1: expected a gpu_id: \"\"");
    tree.gpu(1, 0x1111);
    tree.write("nodes/1/io_links/0/properties", "type 2\n");
    assert_eq!(
        tree.error(),
        "nodes/1/io_links/0/properties: no property node_to"
    );
    tree.link(1, 0, 2, 0);
    tree.write("nodes/1/mem_banks/1/properties", "size_in_bytes 5\n");
    assert_eq!(
        tree.error(),
        "nodes/1/mem_banks/1/properties: no property heap_type"
    );
    tree.remove("nodes/1/properties");
    assert_eq!(tree.error(), "Cannot read nodes/1/properties");
    let mut tree = Files::new();
    tree.cpu(0);
    tree.write("nodes/0/properties", "simd_count 0\n");
    assert_eq!(
        tree.error(),
        "nodes/0/properties: no property cpu_cores_count"
    );
}

#[test]
fn nodes_and_ids_are_unique() {
    let mut tree = Files::new();
    tree.gpu(1, 0x1111);
    tree.gpu(2, 0x1111);
    assert_eq!(tree.error(), "GPU 0x1111 is node 1 and node 2");
    let mut tree = Files::new();
    tree.cpu(1);
    tree.write("nodes/01/gpu_id", "0\n");
    tree.write("nodes/01/properties", "cpu_cores_count 1\n");
    assert!(tree.error().starts_with("Node 1 is twice in "));
}

#[test]
fn sizes_and_counts_are_bounded() {
    let large = "nodes/1/properties is larger than 65536 bytes";
    let many = "nodes/1/io_links holds more than 4096 entries";
    let mut tree = Files::new();
    tree.gpu(1, 0x1111);
    let disk = tree.on_disk();
    // Sparse: costs no disk, and must cost no memory either.
    let file = File::create(disk.path().join("nodes/1/properties")).expect("file");
    file.set_len(1 << 40).expect("sparse");
    assert_eq!(disk_error(&disk), large);
    let disk = tree.on_disk();
    // One file under many names is quick to make.
    let first = disk.path().join("nodes/1/io_links/file");
    File::create(&first).expect("file");
    for number in 1..=MAX_ENTRIES {
        fs::hard_link(&first, first.with_file_name(number.to_string())).expect("link");
    }
    assert_eq!(disk_error(&disk), many);

    tree.write("nodes/1/properties", GPU.to_owned() + &"\n".repeat(1 << 16));
    assert_eq!(tree.error(), large);
    tree.write("nodes/1/properties", GPU);
    for number in 1..=u32::try_from(MAX_ENTRIES).expect("fits") {
        tree.link(1, number, 2, 0);
    }
    assert_eq!(tree.error(), many);
}

/// CPUs without end, each with as many links as a node may have.
struct Endless;

impl Tree for Endless {
    fn list(&self, _: &Path, limit: usize) -> io::Result<Vec<OsString>> {
        let names = 0..limit.min(MAX_ENTRIES);
        Ok(names.map(|name| name.to_string().into()).collect())
    }

    fn read(&self, file: &Path, _: u64) -> io::Result<Vec<u8>> {
        let text = match file.iter().nth_back(1).and_then(|dir| dir.to_str()) {
            _ if file.ends_with("gpu_id") => "0\n",
            Some(_) if file.components().count() > 3 => "type 2\nnode_to 0\n",
            _ => "cpu_cores_count 1\n",
        };
        Ok(text.into())
    }
}

#[test]
fn all_links_together_are_bounded() {
    let error = read_with(Path::new(""), &Endless).expect_err("refused");
    assert_eq!(error.to_string(), "nodes holds more than 262144 entries");
}

#[test]
fn a_machine_without_kfd_is_an_error_and_an_empty_tree_is_not() {
    let error = System::read(Path::new("/nonexistent/topology")).expect_err("no tree");
    assert_eq!(error.to_string(), "Cannot read /nonexistent/topology/nodes");
    let empty = Files(BTreeMap::new());
    assert_eq!(empty.error(), "Cannot read nodes");
    let system = System::read(empty.on_disk().path()).expect("no nodes");
    assert_eq!(system, System::default());
}

proptest! {
    // Each case writes files.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_properties_file_panics(text in prop::collection::vec(any::<u8>(), 0..400), id in ".{0,8}") {
        let mut tree = Files::new();
        tree.gpu(1, 0x1111);
        tree.write("nodes/1/properties", [GPU.as_bytes(), &text].concat());
        let _ = tree.read();
        tree.write("nodes/1/properties", &text);
        tree.write("nodes/1/gpu_id", id);
        tree.write("nodes/1/io_links/0/properties", &text);
        let _ = tree.read();
    }

    /// Lines in any order, and lines of a newer kernel in between, read the same.
    #[test]
    fn order_and_additions_do_not_matter(
        order in Just(GPU.lines().collect::<Vec<_>>()).prop_shuffle(),
        extra in "[a-z_]{1,20}x [0-9]{1,20}",
        at in 0usize..37,
    ) {
        let mut tree = Files::new();
        tree.gpu(1, 0x1111);
        let expected = tree.read().expect("tree");
        let mut lines = order;
        lines.insert(at, &extra);
        tree.write("nodes/1/properties", lines.join("\n"));
        prop_assert_eq!(tree.read().expect("tree"), expected);
    }
}
