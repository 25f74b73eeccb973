//! Structures and request numbers of `/dev/kfd` (type `'K'`), as of interface 1.17 (kernel 6.12).
//!
//! The kernel dispatches by the low 8 bits of the request and copies as many bytes as the request says,
//! so these sizes work on every kernel that knows the request.

use rustix::ioctl::{Opcode, opcode};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ioctl::requests;

/// Ask for the version of the interface.
pub const GET_VERSION: Opcode = opcode::read::<Version>(b'K', 0x01);
/// Ask for the address ranges of the process's GPUs.
pub const GET_PROCESS_APERTURES_NEW: Opcode = opcode::read_write::<AperturesArgs>(b'K', 0x14);
/// Ask what a dma-buf of amdgpu is.
pub const GET_DMABUF_INFO: Opcode = opcode::read_write::<DmabufInfoArgs>(b'K', 0x1c);
/// Ask for and set the retry of page faults.
pub const SET_XNACK_MODE: Opcode = opcode::read_write::<XnackArgs>(b'K', 0x21);
/// The five operations of checkpoint and restore.
pub const CRIU_OP: Opcode = opcode::read_write::<CriuArgs>(b'K', 0x22);
/// Ask how much VRAM can be allocated.
pub const AVAILABLE_MEMORY: Opcode = opcode::read_write::<AvailableMemory>(b'K', 0x23);

requests! {
    Version = GET_VERSION;
    AperturesArgs = GET_PROCESS_APERTURES_NEW;
    DmabufInfoArgs = GET_DMABUF_INFO;
    XnackArgs = SET_XNACK_MODE;
    CriuArgs = CRIU_OP;
    AvailableMemory = AVAILABLE_MEMORY;
}

/// `CriuArgs::op`: evict the queues and report the counts.
pub const CRIU_PROCESS_INFO: u32 = 0;
/// `CriuArgs::op`: hand out devices, buffer objects and private data.
pub const CRIU_CHECKPOINT: u32 = 1;
/// `CriuArgs::op`: let the queues run again.
pub const CRIU_UNPAUSE: u32 = 2;
/// `CriuArgs::op`: build the process's GPU state anew.
pub const CRIU_RESTORE: u32 = 3;
/// `CriuArgs::op`: start the restored queues.
pub const CRIU_RESUME: u32 = 4;

/// The fd field of a bucket that has none.
pub const NO_FD: u32 = u32::MAX;

/// Answer of GET_VERSION.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Version {
    /// Changes when the interface breaks; 1 so far.
    pub major: u32,
    /// Grows with each addition.
    pub minor: u32,
}

/// Argument of GET_PROCESS_APERTURES_NEW.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct AperturesArgs {
    /// Address of an array of [`Aperture`].
    pub records: u64,
    /// In: room in the array, 0 to ask for the count. Out: records written, or the count.
    pub count: u32,
    /// 0.
    pub pad: u32,
}

/// The address ranges of one GPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Aperture {
    /// First address of the LDS aperture.
    pub lds_base: u64,
    /// Last address of the LDS aperture.
    pub lds_limit: u64,
    /// First address of the scratch aperture.
    pub scratch_base: u64,
    /// Last address of the scratch aperture.
    pub scratch_limit: u64,
    /// First address of GPU memory.
    pub gpuvm_base: u64,
    /// Last address of GPU memory.
    pub gpuvm_limit: u64,
    /// The GPU's actual id.
    pub gpu_id: u32,
    /// 0.
    pub pad: u32,
}

/// Argument of GET_DMABUF_INFO.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DmabufInfoArgs {
    /// Out: bytes of the buffer object.
    pub size: u64,
    /// Address of a buffer for the metadata, or 0.
    pub metadata: u64,
    /// In: bytes of that buffer. Out: bytes of the metadata.
    pub metadata_size: u32,
    /// Out: actual id of the GPU.
    pub gpu_id: u32,
    /// Out: allocation flags.
    pub flags: u32,
    /// In: the dma-buf.
    pub dmabuf_fd: u32,
}

/// Argument of SET_XNACK_MODE.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct XnackArgs {
    /// In: 0 or 1 to set, -1 to ask. Out: what was asked for.
    pub enabled: i32,
}

/// Argument of CRIU_OP.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CriuArgs {
    /// Address of an array of [`DeviceBucket`].
    pub devices: u64,
    /// Address of an array of [`BoBucket`].
    pub bos: u64,
    /// Address of the private data.
    pub priv_data: u64,
    /// Bytes of the private data.
    pub priv_data_size: u64,
    /// Entries in `devices`.
    pub num_devices: u32,
    /// Entries in `bos`.
    pub num_bos: u32,
    /// Queues, events and SVM ranges in the private data.
    pub num_objects: u32,
    /// PROCESS_INFO: out, the process in its own pid namespace. RESUME: in, in the caller's.
    pub pid: u32,
    /// One of the `CRIU_` constants.
    pub op: u32,
    /// 0.
    pub pad: u32,
}

/// One GPU of a checkpointed process.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DeviceBucket {
    /// The id that the application knows.
    pub user_gpu_id: u32,
    /// The id in the topology of this machine.
    pub actual_gpu_id: u32,
    /// RESTORE: an open render node of the GPU. CHECKPOINT leaves it alone.
    pub drm_fd: u32,
    /// 0.
    pub pad: u32,
}

/// One buffer object of a checkpointed process.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct BoBucket {
    /// GPU virtual address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Mapping offset at the dump: of the render node, or of `/dev/kfd` for doorbells and MMIO.
    pub offset: u64,
    /// RESTORE, out: the mapping offset now.
    pub restored_offset: u64,
    /// USER id of the GPU.
    pub gpu_id: u32,
    /// Allocation flags, see [`crate::BoFlags`].
    pub alloc_flags: u32,
    /// Out: a dma-buf of the object in the caller's table, or [`NO_FD`].
    pub dmabuf_fd: u32,
    /// 0.
    pub pad: u32,
}

/// Argument of AVAILABLE_MEMORY.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct AvailableMemory {
    /// Out: bytes.
    pub available: u64,
    /// In: user id of the GPU.
    pub gpu_id: u32,
    /// 0.
    pub pad: u32,
}
