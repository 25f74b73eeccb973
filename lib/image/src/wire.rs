//! The messages on disk (proto2). Every scalar is `optional` here, although most are required in the
//! schema: only so can presence be checked, and only so is a required 0 written.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DevIolink {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) link_type: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) node_to_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KfdDeviceEntry {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) node_id: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) gpu_id: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) cpu_cores_count: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) simd_count: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) mem_banks_count: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    pub(crate) caches_count: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(crate) io_links_count: Option<u32>,
    #[prost(uint32, optional, tag = "8")]
    pub(crate) max_waves_per_simd: Option<u32>,
    #[prost(uint32, optional, tag = "9")]
    pub(crate) lds_size_in_kb: Option<u32>,
    #[prost(uint32, optional, tag = "10")]
    pub(crate) gds_size_in_kb: Option<u32>,
    #[prost(uint32, optional, tag = "11")]
    pub(crate) num_gws: Option<u32>,
    #[prost(uint32, optional, tag = "12")]
    pub(crate) wave_front_size: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    pub(crate) array_count: Option<u32>,
    #[prost(uint32, optional, tag = "14")]
    pub(crate) simd_arrays_per_engine: Option<u32>,
    #[prost(uint32, optional, tag = "15")]
    pub(crate) cu_per_simd_array: Option<u32>,
    #[prost(uint32, optional, tag = "16")]
    pub(crate) simd_per_cu: Option<u32>,
    #[prost(uint32, optional, tag = "17")]
    pub(crate) max_slots_scratch_cu: Option<u32>,
    #[prost(uint32, optional, tag = "18")]
    pub(crate) vendor_id: Option<u32>,
    #[prost(uint32, optional, tag = "19")]
    pub(crate) device_id: Option<u32>,
    #[prost(uint32, optional, tag = "20")]
    pub(crate) domain: Option<u32>,
    #[prost(uint32, optional, tag = "21")]
    pub(crate) drm_render_minor: Option<u32>,
    #[prost(uint64, optional, tag = "22")]
    pub(crate) hive_id: Option<u64>,
    #[prost(uint32, optional, tag = "23")]
    pub(crate) num_sdma_engines: Option<u32>,
    #[prost(uint32, optional, tag = "24")]
    pub(crate) num_sdma_xgmi_engines: Option<u32>,
    #[prost(uint32, optional, tag = "25")]
    pub(crate) num_sdma_queues_per_engine: Option<u32>,
    #[prost(uint32, optional, tag = "26")]
    pub(crate) num_cp_queues: Option<u32>,
    #[prost(uint32, optional, tag = "27")]
    pub(crate) fw_version: Option<u32>,
    #[prost(uint32, optional, tag = "28")]
    pub(crate) capability: Option<u32>,
    #[prost(uint32, optional, tag = "29")]
    pub(crate) sdma_fw_version: Option<u32>,
    #[prost(uint32, optional, tag = "30")]
    pub(crate) vram_public: Option<u32>,
    #[prost(uint64, optional, tag = "31")]
    pub(crate) vram_size: Option<u64>,
    #[prost(message, repeated, tag = "32")]
    pub(crate) iolinks: Vec<DevIolink>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KfdBoEntry {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) addr: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) size: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) offset: Option<u64>,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) alloc_flags: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) gpu_id: Option<u32>,
    /// Only newer C plugins have it, and they require it.
    #[prost(uint32, optional, tag = "6")]
    pub(crate) handle: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CriuKfd {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) pid: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) num_of_gpus: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) num_of_cpus: Option<u32>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) device_entries: Vec<KfdDeviceEntry>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) num_of_bos: Option<u64>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) bo_entries: Vec<KfdBoEntry>,
    #[prost(uint32, optional, tag = "7")]
    pub(crate) num_of_objects: Option<u32>,
    #[prost(uint64, optional, tag = "8")]
    pub(crate) shared_mem_size: Option<u64>,
    #[prost(uint32, optional, tag = "9")]
    pub(crate) shared_mem_magic: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "10")]
    pub(crate) priv_data: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DrmVmEntry {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) addr: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) size: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) offset: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) flags: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DrmBoEntry {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) addr: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) size: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) offset: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) alloc_flags: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) alignment: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub(crate) preferred_domains: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(crate) handle: Option<u32>,
    #[prost(uint32, optional, tag = "8")]
    pub(crate) is_import: Option<u32>,
    #[prost(uint32, optional, tag = "9")]
    pub(crate) num_of_vms: Option<u32>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) vm_entries: Vec<DrmVmEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CriuRenderNode {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) gpu_id: Option<u32>,
    /// Fields 2 to 5 only in newer C plugins, which require 2 to 4.
    #[prost(uint32, optional, tag = "2")]
    pub(crate) id: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) drm_render_minor: Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) num_of_bos: Option<u64>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) bo_entries: Vec<DrmBoEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CriuDmabufNode {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) gem_handle: Option<u32>,
}

/// `rocferry-file-%d.img`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileRecord {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) version: Option<u32>,
    /// 1 kfd, 2 kfd alias, 3 render node.
    #[prost(uint32, optional, tag = "2")]
    pub(crate) kind: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) status_flags: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) task_pid: Option<u32>,
    /// Kind 2 only.
    #[prost(int32, optional, tag = "5")]
    pub(crate) alias_of: Option<i32>,
    /// Kind 3 only.
    #[prost(uint32, optional, tag = "6")]
    pub(crate) gpu_id: Option<u32>,
    /// Kind 3 only.
    #[prost(bool, optional, tag = "7")]
    pub(crate) primary: Option<bool>,
}

/// `rocferry-task-%d.img`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TaskRecord {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) version: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) pid: Option<u32>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) kfd_file_id: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) devices: Vec<TaskDevice>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) vmas: Vec<TaskVma>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TaskDevice {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) user_gpu_id: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) actual_gpu_id: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) drm_render_minor: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) gfx_target_version: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) num_xcc: Option<u32>,
    #[prost(string, optional, tag = "6")]
    pub(crate) compute_partition: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub(crate) memory_partition: Option<String>,
    #[prost(uint32, optional, tag = "8")]
    pub(crate) partition_index: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TaskVma {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) start: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) end: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) pgoff: Option<u64>,
    /// 1 /dev/kfd, 2 render node.
    #[prost(uint32, optional, tag = "4")]
    pub(crate) kind: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) gpu_id: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    pub(crate) bo: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(crate) prot: Option<u32>,
    #[prost(bool, optional, tag = "8")]
    pub(crate) private: Option<bool>,
}

/// `rocferry-index-%d-%04x.img`. `bos` (tag 3) is read entry by entry, see [`crate::walk`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BlockIndex {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) version: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) block_size: Option<u64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) bos: Vec<BoBlocks>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BoBlocks {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) bo: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) size: Option<u64>,
    /// Bit `i % 8` of byte `i / 8` is set when block `i` is all zeros.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(crate) zero_blocks: Option<Vec<u8>>,
    /// 32 bytes for each other block, in order.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(crate) digests: Option<Vec<u8>>,
}

/// An entry of CRIU's `pstree.img`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PstreeEntry {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) pid: Option<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "5")]
    pub(crate) threads: Vec<u32>,
}

/// The entry of CRIU's `core-%u.img`: what a thread may do.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CoreEntry {
    #[prost(message, optional, tag = "3")]
    pub(crate) tc: Option<TaskCoreEntry>,
    #[prost(message, optional, tag = "5")]
    pub(crate) thread_core: Option<ThreadCoreEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TaskCoreEntry {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) task_state: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ThreadCoreEntry {
    #[prost(message, optional, tag = "10")]
    pub(crate) creds: Option<CredsEntry>,
    #[prost(uint32, optional, tag = "11")]
    pub(crate) seccomp_mode: Option<u32>,
    #[prost(uint32, optional, tag = "12")]
    pub(crate) seccomp_filter: Option<u32>,
}

/// The entry of CRIU's `seccomp.img`: all filters of all processes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SeccompEntry {
    #[prost(message, repeated, tag = "1")]
    pub(crate) filters: Vec<SeccompFilter>,
}

/// One filter, less its program.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SeccompFilter {
    #[prost(uint32, optional, tag = "2")]
    pub(crate) prev: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) flags: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CredsEntry {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) uid: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) gid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) euid: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) egid: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) suid: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    pub(crate) sgid: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(crate) fsuid: Option<u32>,
    #[prost(uint32, optional, tag = "8")]
    pub(crate) fsgid: Option<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "9")]
    pub(crate) cap_inh: Vec<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "10")]
    pub(crate) cap_prm: Vec<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "11")]
    pub(crate) cap_eff: Vec<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "12")]
    pub(crate) cap_bnd: Vec<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "14")]
    pub(crate) groups: Vec<u32>,
    /// `apparmor:NAME` or `selinux:LABEL`.
    #[prost(string, optional, tag = "15")]
    pub(crate) lsm_profile: Option<String>,
    #[prost(uint32, optional, tag = "18")]
    pub(crate) no_new_privs: Option<u32>,
    /// Since 4.0.
    #[prost(uint32, repeated, packed = "false", tag = "19")]
    pub(crate) cap_amb: Vec<u32>,
}

/// An entry of CRIU's `mountpoints-%u.img`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MntEntry {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) fstype: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) mnt_id: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) root_dev: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) parent_mnt_id: Option<u32>,
    #[prost(string, optional, tag = "6")]
    pub(crate) root: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub(crate) mountpoint: Option<String>,
    #[prost(bool, optional, tag = "12")]
    pub(crate) with_plugin: Option<bool>,
    #[prost(bool, optional, tag = "13")]
    pub(crate) ext_mount: Option<bool>,
    #[prost(string, optional, tag = "14")]
    pub(crate) fsname: Option<String>,
    #[prost(string, optional, tag = "18")]
    pub(crate) ext_key: Option<String>,
}
