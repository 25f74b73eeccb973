//! Nodes of a system: CPUs and GPUs.

use serde::{Deserialize, Serialize};

use crate::{
    ActualGpuId, ComputePartition, HiveId, Link, MemoryPartition, NodeId, RenderMinor, UserGpuId,
};

/// A CPU node (a NUMA node that has cores), `gpu_id` 0 in sysfs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuNode {
    /// Its number.
    pub node: NodeId,
    /// `cpu_cores_count`: logical CPUs.
    pub cpu_cores: u32,
    /// Links that start here. A link to a GPU exists only when the CPU can reach all of its memory.
    pub links: Vec<Link>,
}

/// Memory of a GPU: its first bank that is a frame buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vram {
    /// The CPU can reach all of it (heap type 1; type 2 is private).
    pub public: bool,
    /// Size in bytes, more than 0.
    pub size: u64,
}

/// The properties of a GPU that decide whether it may stand in for another one, named as in
/// `nodes/N/properties` (kernel 6.12) and in the C plugin's `kfd_device_entry`.
///
/// A property that the kernel does not print is 0, as in the C plugin.
///
/// The names of the fields are also those of [`CompactTopology`](crate::CompactTopology), in camel case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuProperties {
    /// SIMD units.
    pub simd_count: u32,
    /// Memory banks.
    pub mem_banks_count: u32,
    /// Caches listed.
    pub caches_count: u32,
    /// Links as the kernel counts them: masked peers and link types that are not kept included.
    pub io_links_count: u32,
    /// Wave slots of a SIMD unit.
    pub max_waves_per_simd: u32,
    /// Local data share of a work group, KiB.
    pub lds_size_in_kb: u32,
    /// Global wave sync entries.
    pub num_gws: u32,
    /// Lanes of a wave.
    pub wave_front_size: u32,
    /// Shader arrays.
    pub array_count: u32,
    /// Shader arrays of an engine.
    pub simd_arrays_per_engine: u32,
    /// Compute units of a shader array.
    pub cu_per_simd_array: u32,
    /// SIMD units of a compute unit.
    pub simd_per_cu: u32,
    /// Scratch slots of a compute unit.
    pub max_slots_scratch_cu: u32,
    /// PCI vendor.
    pub vendor_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// SDMA engines usable over PCIe.
    pub num_sdma_engines: u32,
    /// SDMA engines reserved for XGMI.
    pub num_sdma_xgmi_engines: u32,
    /// Queues of an SDMA engine.
    pub num_sdma_queues_per_engine: u32,
    /// Compute queues.
    pub num_cp_queues: u32,
    /// Version of the compute firmware (MEC).
    pub fw_version: u32,
    /// Capability bits (`HSA_CAP_*` of the kernel).
    pub capability: u32,
    /// Version of the SDMA firmware.
    pub sdma_fw_version: u32,
    /// Its memory. `None`: no frame buffer bank (an APU).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vram: Option<Vram>,
}

/// A GPU node. `Id` says whose name for the GPU it holds: [`ActualGpuId`] on a live system,
/// [`UserGpuId`] in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuNode<Id = ActualGpuId> {
    /// Its number.
    pub node: NodeId,
    /// Its gpu_id, never 0.
    pub id: Id,
    /// Its render node.
    pub render_minor: RenderMinor,
    /// PCI domain.
    pub domain: u32,
    /// Hive that the kernel put it into. Matching goes by links, not by this.
    pub hive_id: Option<HiveId>,
    /// What decides about a match.
    pub properties: GpuProperties,
    /// `location_id`: PCI bus, device and function. Not in images.
    pub location_id: Option<u32>,
    /// `unique_id`: serial of the chip, absent or `None` when the kernel prints 0. Not in images.
    pub unique_id: Option<u64>,
    /// `gfx_target_version`, for instance 90402 for gfx942 (major × 10000 + minor × 100 + stepping).
    /// Absent in images of the C plugin.
    pub gfx_target_version: Option<u32>,
    /// `num_xcc`: compute dies in this partition. Absent in images of the C plugin and on kernels
    /// before 6.5.
    pub num_xcc: Option<u32>,
    /// How the card is divided into partitions. `None`: not recorded.
    pub compute_partition: Option<ComputePartition>,
    /// How the memory of the card is divided. `None`: not recorded.
    pub memory_partition: Option<MemoryPartition>,
    /// Links that start here.
    pub links: Vec<Link>,
}

/// A GPU that was checkpointed.
pub type SourceGpu = GpuNode<UserGpuId>;

impl<Id> GpuNode<Id> {
    /// The same GPU under another id.
    #[must_use]
    pub fn with_id<New>(self, id: New) -> GpuNode<New> {
        GpuNode {
            node: self.node,
            id,
            render_minor: self.render_minor,
            domain: self.domain,
            hive_id: self.hive_id,
            properties: self.properties,
            location_id: self.location_id,
            unique_id: self.unique_id,
            gfx_target_version: self.gfx_target_version,
            num_xcc: self.num_xcc,
            compute_partition: self.compute_partition,
            memory_partition: self.memory_partition,
            links: self.links,
        }
    }

    /// Number of PCIe and XGMI links whose far end is a node of the system.
    #[must_use]
    pub fn valid_link_count(&self) -> u64 {
        self.links
            .iter()
            .filter(|link| link.valid && link.kind.is_kept())
            .count() as u64
    }
}

/// A node of the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node<Id = ActualGpuId> {
    /// A CPU.
    Cpu(CpuNode),
    /// A GPU, or one partition of it.
    Gpu(GpuNode<Id>),
}

impl<Id> Node<Id> {
    /// Its number.
    #[must_use]
    pub const fn id(&self) -> NodeId {
        match self {
            Self::Cpu(cpu) => cpu.node,
            Self::Gpu(gpu) => gpu.node,
        }
    }

    /// Links that start here.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        match self {
            Self::Cpu(cpu) => &cpu.links,
            Self::Gpu(gpu) => &gpu.links,
        }
    }

    pub(crate) const fn links_mut(&mut self) -> &mut Vec<Link> {
        match self {
            Self::Cpu(cpu) => &mut cpu.links,
            Self::Gpu(gpu) => &mut gpu.links,
        }
    }

    /// The GPU, if it is one.
    #[must_use]
    pub const fn as_gpu(&self) -> Option<&GpuNode<Id>> {
        match self {
            Self::Cpu(_) => None,
            Self::Gpu(gpu) => Some(gpu),
        }
    }

    /// The CPU, if it is one.
    #[must_use]
    pub const fn as_cpu(&self) -> Option<&CpuNode> {
        match self {
            Self::Cpu(cpu) => Some(cpu),
            Self::Gpu(_) => None,
        }
    }
}
