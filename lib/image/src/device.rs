//! Topology nodes as `kfd_device_entry`.

use rocferry_topology::{
    CpuNode, GpuNode, GpuProperties, HiveId, Link, LinkKind, Node, NodeId, RenderMinor, UserGpuId,
    Vram,
};

use crate::FormatError;
use crate::walk::{need, required};
use crate::wire::{DevIolink, KfdDeviceEntry};

const MESSAGE: &str = "kfd_device_entry";

/// Encodes a node. Links that lead nowhere or are neither PCIe nor XGMI are left out.
pub(crate) fn to_entry(node: &Node<UserGpuId>) -> KfdDeviceEntry {
    let mut entry = match node {
        Node::Cpu(cpu) => cpu_entry(cpu),
        Node::Gpu(gpu) => gpu_entry(gpu),
    };
    entry.iolinks = node
        .links()
        .iter()
        .filter(|link| link.valid && link.kind.is_kept())
        .map(|link| DevIolink {
            link_type: Some(link.kind.raw()),
            node_to_id: Some(link.to.get()),
        })
        .collect();
    entry
}

fn cpu_entry(cpu: &CpuNode) -> KfdDeviceEntry {
    // The C plugin leaves everything else of a CPU at 0, its raw link count too.
    KfdDeviceEntry {
        cpu_cores_count: Some(cpu.cpu_cores),
        ..gpu_entry(&GpuNode {
            node: cpu.node,
            id: UserGpuId(0),
            ..GpuNode::default()
        })
    }
}

fn gpu_entry(gpu: &GpuNode<UserGpuId>) -> KfdDeviceEntry {
    let properties = &gpu.properties;
    KfdDeviceEntry {
        node_id: Some(gpu.node.get()),
        gpu_id: Some(gpu.id.get()),
        cpu_cores_count: Some(0),
        simd_count: Some(properties.simd_count),
        mem_banks_count: Some(properties.mem_banks_count),
        caches_count: Some(properties.caches_count),
        io_links_count: Some(properties.io_links_count),
        max_waves_per_simd: Some(properties.max_waves_per_simd),
        lds_size_in_kb: Some(properties.lds_size_in_kb),
        gds_size_in_kb: Some(0),
        num_gws: Some(properties.num_gws),
        wave_front_size: Some(properties.wave_front_size),
        array_count: Some(properties.array_count),
        simd_arrays_per_engine: Some(properties.simd_arrays_per_engine),
        cu_per_simd_array: Some(properties.cu_per_simd_array),
        simd_per_cu: Some(properties.simd_per_cu),
        max_slots_scratch_cu: Some(properties.max_slots_scratch_cu),
        vendor_id: Some(properties.vendor_id),
        device_id: Some(properties.device_id),
        domain: Some(gpu.domain),
        drm_render_minor: Some(gpu.render_minor.get()),
        hive_id: Some(gpu.hive_id.map_or(0, HiveId::get)),
        num_sdma_engines: Some(properties.num_sdma_engines),
        num_sdma_xgmi_engines: Some(properties.num_sdma_xgmi_engines),
        num_sdma_queues_per_engine: Some(properties.num_sdma_queues_per_engine),
        num_cp_queues: Some(properties.num_cp_queues),
        fw_version: Some(properties.fw_version),
        capability: Some(properties.capability),
        sdma_fw_version: Some(properties.sdma_fw_version),
        vram_public: Some(u32::from(properties.vram.is_some_and(|vram| vram.public))),
        vram_size: Some(properties.vram.map_or(0, |vram| vram.size)),
        iolinks: Vec::new(),
    }
}

/// Decodes the node at `index` of the list; every field must be there. Links are not resolved yet.
pub(crate) fn from_entry(
    index: usize,
    entry: KfdDeviceEntry,
) -> Result<Node<UserGpuId>, FormatError> {
    let index = Some(index);
    let gpu = GpuNode {
        node: NodeId(need!(MESSAGE, index, entry.node_id)),
        id: UserGpuId(need!(MESSAGE, index, entry.gpu_id)),
        render_minor: RenderMinor(need!(MESSAGE, index, entry.drm_render_minor)),
        domain: need!(MESSAGE, index, entry.domain),
        hive_id: HiveId::from_raw(need!(MESSAGE, index, entry.hive_id)),
        properties: GpuProperties {
            simd_count: need!(MESSAGE, index, entry.simd_count),
            mem_banks_count: need!(MESSAGE, index, entry.mem_banks_count),
            caches_count: need!(MESSAGE, index, entry.caches_count),
            io_links_count: need!(MESSAGE, index, entry.io_links_count),
            max_waves_per_simd: need!(MESSAGE, index, entry.max_waves_per_simd),
            lds_size_in_kb: need!(MESSAGE, index, entry.lds_size_in_kb),
            num_gws: need!(MESSAGE, index, entry.num_gws),
            wave_front_size: need!(MESSAGE, index, entry.wave_front_size),
            array_count: need!(MESSAGE, index, entry.array_count),
            simd_arrays_per_engine: need!(MESSAGE, index, entry.simd_arrays_per_engine),
            cu_per_simd_array: need!(MESSAGE, index, entry.cu_per_simd_array),
            simd_per_cu: need!(MESSAGE, index, entry.simd_per_cu),
            max_slots_scratch_cu: need!(MESSAGE, index, entry.max_slots_scratch_cu),
            vendor_id: need!(MESSAGE, index, entry.vendor_id),
            device_id: need!(MESSAGE, index, entry.device_id),
            num_sdma_engines: need!(MESSAGE, index, entry.num_sdma_engines),
            num_sdma_xgmi_engines: need!(MESSAGE, index, entry.num_sdma_xgmi_engines),
            num_sdma_queues_per_engine: need!(MESSAGE, index, entry.num_sdma_queues_per_engine),
            num_cp_queues: need!(MESSAGE, index, entry.num_cp_queues),
            fw_version: need!(MESSAGE, index, entry.fw_version),
            capability: need!(MESSAGE, index, entry.capability),
            sdma_fw_version: need!(MESSAGE, index, entry.sdma_fw_version),
            vram: vram(index, &entry)?,
        },
        location_id: None,
        unique_id: None,
        gfx_target_version: None,
        num_xcc: None,
        compute_partition: None,
        memory_partition: None,
        links: Vec::new(),
    };
    let cpu_cores = need!(MESSAGE, index, entry.cpu_cores_count);
    need!(MESSAGE, index, entry.gds_size_in_kb);
    let links = entry.iolinks.into_iter().enumerate().map(|(number, link)| {
        let kind = required("dev_iolink", Some(number), "type", link.link_type)?;
        let to = need!("dev_iolink", Some(number), link.node_to_id);
        Ok(Link::new(LinkKind::from_raw(kind), NodeId(to)))
    });
    let links = links.collect::<Result<_, FormatError>>()?;
    Ok(if gpu.id.get() == 0 {
        Node::Cpu(CpuNode {
            node: gpu.node,
            cpu_cores,
            links,
        })
    } else {
        Node::Gpu(GpuNode { links, ..gpu })
    })
}

fn vram(index: Option<usize>, entry: &KfdDeviceEntry) -> Result<Option<Vram>, FormatError> {
    let public = match need!(MESSAGE, index, entry.vram_public) {
        0 => false,
        1 => true,
        other => {
            let (field, value) = ("vram_public", other.into());
            return Err(FormatError::InvalidValue {
                message: MESSAGE,
                index,
                field,
                value,
            });
        }
    };
    let size = need!(MESSAGE, index, entry.vram_size);
    Ok((size != 0).then_some(Vram { public, size }))
}
