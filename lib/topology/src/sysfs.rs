//! Reading a KFD topology tree (`/sys/class/kfd/kfd/topology`).
//!
//! Layout and contents are those of the kernel's `kfd_topology.c` (6.12); older and newer kernels print
//! fewer or more properties. Every read is bounded, so that a damaged or hostile tree costs a message
//! and not memory.

mod tree;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::properties::{Properties, parse_decimal, shorten};
use crate::{
    ActualGpuId, CpuNode, GpuNode, GpuProperties, HiveId, Link, LinkKind, Node, NodeId,
    RenderMinor, System, Vram,
};
use tree::{Disk, Tree};

/// Where the kernel shows the topology of the machine.
pub const SYSFS_ROOT: &str = "/sys/class/kfd/kfd/topology";

/// Larger than anything the kernel prints (one page at most).
const MAX_FILE: u64 = 64 * 1024;
/// More than 64 partitions of each of 16 GPUs.
pub(crate) const MAX_ENTRIES: usize = 4096;
/// 512 GPUs of which each has a link to each other one.
pub(crate) const MAX_LINKS: usize = 1 << 18;

/// A topology tree that cannot be understood.
#[derive(Debug, Error)]
pub enum ReadError {
    /// A file or directory cannot be read.
    #[error("Cannot read {}", .path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is larger than any file of such a tree.
    #[error("{} is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound, in bytes.
        limit: u64,
    },
    /// There are more nodes, banks or links than any machine has.
    #[error("{} holds more than {limit} entries", .path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
        /// The bound.
        limit: usize,
    },
    /// A line that matters is not what the kernel prints.
    #[error("{}:{line}: {reason}: {text:?}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The line, shortened.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A property that every kernel prints is absent.
    #[error("{}: no property {name}", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The property.
        name: &'static str,
    },
    /// Two directories name the same node.
    #[error("Node {node} is twice in {}", .path.display())]
    DuplicateNode {
        /// The directory of the nodes.
        path: PathBuf,
        /// The node.
        node: NodeId,
    },
    /// Two nodes have the same gpu_id.
    #[error("GPU {gpu} is node {first} and node {second}")]
    DuplicateGpu {
        /// The gpu_id.
        gpu: ActualGpuId,
        /// One node.
        first: NodeId,
        /// The other.
        second: NodeId,
    },
}

impl System {
    /// Reads the tree below `root`, the directory named `topology` (see [`SYSFS_ROOT`]).
    ///
    /// Nodes come out sorted by number. A node that may not be read (EPERM or EACCES, which is how the
    /// device cgroup hides a GPU) is listed in [`System::masked`]. Absent `io_links` and `mem_banks`
    /// directories count as empty; properties that this crate does not know are skipped; those it knows
    /// are 0 or `None` when absent, except `cpu_cores_count` of a CPU and `simd_count`, `vendor_id`,
    /// `device_id` and `drm_render_minor` of a GPU.
    ///
    /// # Errors
    /// [`ReadError`], naming path and line.
    pub fn read(root: &Path) -> Result<Self, ReadError> {
        read_with(root, &Disk)
    }

    /// Reads a tree that is held in memory, by the rules of [`System::read`]: contents by path below the
    /// directory named `topology`, for instance `nodes/4/properties`. `None` is a file that may not be
    /// read. Directories are those that the paths name, so a directory without files is an absent one.
    ///
    /// # Errors
    /// [`ReadError`], naming path and line.
    pub fn from_files(files: &BTreeMap<PathBuf, Option<Vec<u8>>>) -> Result<Self, ReadError> {
        read_with(Path::new(""), files)
    }
}

struct Reader<'a, T> {
    tree: &'a T,
}

fn read_with(root: &Path, tree: &impl Tree) -> Result<System, ReadError> {
    let reader = Reader { tree };
    let dir = root.join("nodes");
    let mut ids = HashSet::new();
    let mut nodes = Vec::new();
    let mut masked = Vec::new();
    let mut links = 0;
    for (number, path) in reader.numbered(&dir, Absent::IsError)? {
        let node = NodeId(number);
        if !ids.insert(node) {
            return Err(ReadError::DuplicateNode { path: dir, node });
        }
        match reader.node(node, &path) {
            Ok(read) => {
                links += read.links().len();
                if links > MAX_LINKS {
                    return Err(ReadError::TooMany {
                        path: dir,
                        limit: MAX_LINKS,
                    });
                }
                nodes.push(read);
            }
            Err(ReadError::Io { source, .. }) if is_masked(&source) => masked.push(node),
            Err(error) => return Err(error),
        }
    }
    let mut gpus: Vec<(ActualGpuId, NodeId)> = nodes
        .iter()
        .filter_map(Node::as_gpu)
        .map(|gpu| (gpu.id, gpu.node))
        .collect();
    gpus.sort_unstable();
    if let Some(pair) = gpus.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let (gpu, first, second) = (pair[0].0, pair[0].1, pair[1].1);
        return Err(ReadError::DuplicateGpu { gpu, first, second });
    }
    Ok(System::new(nodes, masked))
}

fn is_masked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

impl<T: Tree> Reader<'_, T> {
    fn node(&self, node: NodeId, dir: &Path) -> Result<Node, ReadError> {
        let path = dir.join("gpu_id");
        let text = self.text(&path)?;
        let text = String::from_utf8_lossy(&text);
        let id = parse_decimal(text.trim_ascii())
            .and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| ReadError::Malformed {
                path: path.clone(),
                line: 1,
                text: shorten(&text),
                reason: "expected a gpu_id",
            })?;
        let path = dir.join("properties");
        let text = self.text(&path)?;
        if id == 0 {
            let properties = Properties::parse(&path, &text, &["cpu_cores_count"])?;
            let cpu_cores = properties.required("cpu_cores_count")?;
            return Ok(Node::Cpu(CpuNode {
                node,
                cpu_cores,
                links: self.links(dir)?,
            }));
        }
        let properties = Properties::parse(&path, &text, GPU_PROPERTIES)?;
        let mut gpu = parse_gpu(node, ActualGpuId(id), &properties)?;
        gpu.properties.vram = self.vram(dir)?;
        gpu.links = self.links(dir)?;
        Ok(Node::Gpu(gpu))
    }

    /// The first bank that is a frame buffer: heap type 1 (public) or 2 (private).
    fn vram(&self, dir: &Path) -> Result<Option<Vram>, ReadError> {
        for (_, bank) in self.numbered(&dir.join("mem_banks"), Absent::IsEmpty)? {
            let path = bank.join("properties");
            let text = self.text(&path)?;
            let bank = Properties::parse(&path, &text, &["heap_type", "size_in_bytes"])?;
            let heap = bank.required("heap_type")?;
            if heap == 1 || heap == 2 {
                let size = bank.u64("size_in_bytes").unwrap_or_default();
                return Ok((size != 0).then_some(Vram {
                    public: heap == 1,
                    size,
                }));
            }
        }
        Ok(None)
    }

    fn links(&self, dir: &Path) -> Result<Vec<Link>, ReadError> {
        let mut links = Vec::new();
        for (_, link) in self.numbered(&dir.join("io_links"), Absent::IsEmpty)? {
            let path = link.join("properties");
            let text = self.text(&path)?;
            let link = Properties::parse(&path, &text, &["type", "node_to"])?;
            let kind = LinkKind::from_raw(link.required("type")?);
            links.push(Link::new(kind, NodeId(link.required("node_to")?)));
        }
        Ok(links)
    }

    fn text(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let content = self
            .tree
            .read(path, MAX_FILE + 1)
            .map_err(|source| ReadError::Io {
                path: path.to_owned(),
                source,
            })?;
        if content.len() as u64 > MAX_FILE {
            return Err(ReadError::TooLarge {
                path: path.to_owned(),
                limit: MAX_FILE,
            });
        }
        Ok(content)
    }

    /// Entries of a directory whose whole name is a number, sorted by it.
    fn numbered(&self, dir: &Path, absent: Absent) -> Result<Vec<(u32, PathBuf)>, ReadError> {
        let names = match self.tree.list(dir, MAX_ENTRIES + 1) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound && absent == Absent::IsEmpty => {
                return Ok(Vec::new());
            }
            Err(source) => {
                return Err(ReadError::Io {
                    path: dir.to_owned(),
                    source,
                });
            }
        };
        if names.len() > MAX_ENTRIES {
            return Err(ReadError::TooMany {
                path: dir.to_owned(),
                limit: MAX_ENTRIES,
            });
        }
        let mut found: Vec<(u32, PathBuf)> = names
            .iter()
            .filter_map(|name| {
                let number = parse_decimal(name.to_str()?)?;
                Some((u32::try_from(number).ok()?, dir.join(name)))
            })
            .collect();
        found.sort();
        Ok(found)
    }
}

const GPU_PROPERTIES: &[&str] = &[
    "simd_count",
    "mem_banks_count",
    "caches_count",
    "io_links_count",
    "max_waves_per_simd",
    "lds_size_in_kb",
    "num_gws",
    "wave_front_size",
    "array_count",
    "simd_arrays_per_engine",
    "cu_per_simd_array",
    "simd_per_cu",
    "max_slots_scratch_cu",
    "gfx_target_version",
    "vendor_id",
    "device_id",
    "location_id",
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
    "unique_id",
    "num_xcc",
];

fn parse_gpu(
    node: NodeId,
    id: ActualGpuId,
    properties: &Properties<'_>,
) -> Result<GpuNode, ReadError> {
    let number = |name| properties.u32(name).map(Option::unwrap_or_default);
    Ok(GpuNode {
        node,
        id,
        render_minor: RenderMinor(properties.required("drm_render_minor")?),
        domain: number("domain")?,
        hive_id: properties.u64("hive_id").and_then(HiveId::from_raw),
        properties: GpuProperties {
            simd_count: properties.required("simd_count")?,
            mem_banks_count: number("mem_banks_count")?,
            caches_count: number("caches_count")?,
            io_links_count: number("io_links_count")?,
            max_waves_per_simd: number("max_waves_per_simd")?,
            lds_size_in_kb: number("lds_size_in_kb")?,
            num_gws: number("num_gws")?,
            wave_front_size: number("wave_front_size")?,
            array_count: number("array_count")?,
            simd_arrays_per_engine: number("simd_arrays_per_engine")?,
            cu_per_simd_array: number("cu_per_simd_array")?,
            simd_per_cu: number("simd_per_cu")?,
            max_slots_scratch_cu: number("max_slots_scratch_cu")?,
            vendor_id: properties.required("vendor_id")?,
            device_id: properties.required("device_id")?,
            num_sdma_engines: number("num_sdma_engines")?,
            num_sdma_xgmi_engines: number("num_sdma_xgmi_engines")?,
            num_sdma_queues_per_engine: number("num_sdma_queues_per_engine")?,
            num_cp_queues: number("num_cp_queues")?,
            fw_version: number("fw_version")?,
            capability: number("capability")?,
            sdma_fw_version: number("sdma_fw_version")?,
            vram: None,
        },
        location_id: properties.u32("location_id")?,
        unique_id: properties.u64("unique_id").filter(|id| *id != 0),
        gfx_target_version: properties.u32("gfx_target_version")?,
        num_xcc: properties.u32("num_xcc")?,
        compute_partition: None,
        memory_partition: None,
        links: Vec::new(),
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Absent {
    IsError,
    IsEmpty,
}

#[cfg(test)]
#[path = "sysfs_tests.rs"]
mod tests;
