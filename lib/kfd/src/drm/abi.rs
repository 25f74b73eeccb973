//! Structures and request numbers of an amdgpu render node (type `'d'`), as of kernel 6.12 and, where a
//! structure grew, the newest header. The kernel dispatches by the low 8 bits, copies what both sides
//! know and zero-fills the rest.

use rustix::ioctl::{Opcode, opcode};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ioctl::requests;

const TYPE: u8 = b'd';

/// Name and version of the driver.
pub const VERSION: Opcode = opcode::read_write::<VersionArgs>(TYPE, 0x00);
/// Drop a handle.
pub const GEM_CLOSE: Opcode = opcode::write::<GemClose>(TYPE, 0x09);
/// Export an object as a dma-buf.
pub const PRIME_HANDLE_TO_FD: Opcode = opcode::read_write::<PrimeHandleToFd>(TYPE, 0x2d);
/// Import a dma-buf.
pub const PRIME_FD_TO_HANDLE: Opcode = opcode::read_write::<PrimeFdToHandle>(TYPE, 0x2e);
/// Make a buffer object.
pub const GEM_CREATE: Opcode = opcode::read_write::<GemCreate>(TYPE, 0x40);
/// Ask for the mapping offset of an object.
pub const GEM_MMAP: Opcode = opcode::read_write::<GemMmap>(TYPE, 0x41);
/// Make, drop or query a submission context.
pub const CTX: Opcode = opcode::read_write::<Ctx>(TYPE, 0x42);
/// Submit a job.
pub const CS: Opcode = opcode::read_write::<Cs>(TYPE, 0x44);
/// Ask the driver something.
pub const INFO: Opcode = opcode::write::<Info>(TYPE, 0x45);
/// Change the mappings of the file's GPU address space.
pub const GEM_VA: Opcode = opcode::write::<GemVa>(TYPE, 0x48);
/// Wait for a job.
pub const WAIT_CS: Opcode = opcode::read_write::<WaitCs>(TYPE, 0x49);
/// Ask how an object was made, or change its placement.
pub const GEM_OP: Opcode = opcode::read_write::<GemOp>(TYPE, 0x50);
/// Make an object of the caller's own memory.
pub const GEM_USERPTR: Opcode = opcode::read_write::<GemUserptr>(TYPE, 0x51);
/// List the handles of a file; not in kernel 6.12.
pub const GEM_LIST_HANDLES: Opcode = opcode::read_write::<GemListHandles>(TYPE, 0x59);

requests! {
    VersionArgs = VERSION;
    GemClose = GEM_CLOSE;
    PrimeHandleToFd = PRIME_HANDLE_TO_FD;
    PrimeFdToHandle = PRIME_FD_TO_HANDLE;
    GemCreate = GEM_CREATE;
    GemMmap = GEM_MMAP;
    Ctx = CTX;
    Cs = CS;
    Info = INFO;
    GemVa = GEM_VA;
    WaitCs = WAIT_CS;
    GemOp = GEM_OP;
    GemUserptr = GEM_USERPTR;
    GemListHandles = GEM_LIST_HANDLES;
}

/// Memory domain: host memory that the GPU reaches.
pub const DOMAIN_GTT: u64 = 0x2;
/// Memory domain: the GPU's own memory.
pub const DOMAIN_VRAM: u64 = 0x4;

/// `Ctx::op`: make one.
pub const CTX_ALLOC: u32 = 1;
/// `Ctx::op`: drop one.
pub const CTX_FREE: u32 = 2;

/// `GemVa::operation`: add a mapping.
pub const VA_MAP: u32 = 1;
/// `GemVa::operation`: remove the mapping that starts at the address.
pub const VA_UNMAP: u32 = 2;
/// `GemVa::flags`: the GPU may read.
pub const VA_READABLE: u32 = 1 << 1;
/// `GemVa::flags`: the GPU may write.
pub const VA_WRITEABLE: u32 = 1 << 2;
/// `GemVa::flags`: the GPU may execute.
pub const VA_EXECUTABLE: u32 = 1 << 3;

/// `Info::query`: one engine type.
pub const INFO_HW_IP: u32 = 0x02;
/// `Info::query`: the device.
pub const INFO_DEV: u32 = 0x16;

/// Engine type of the copy engines.
pub const HW_IP_DMA: u32 = 2;

/// `Chunk::id`: an indirect buffer to execute.
pub const CHUNK_IB: u32 = 1;
/// `Chunk::id`: the objects that the job touches.
pub const CHUNK_BO_HANDLES: u32 = 6;

/// `GemOp::op`: how the object was made.
pub const GEM_OP_CREATE_INFO: u32 = 0;

/// `GemUserptr::flags`: the GPU only reads.
pub const USERPTR_READONLY: u32 = 1;
/// `GemUserptr::flags`: refuse memory of files.
pub const USERPTR_ANONONLY: u32 = 2;
/// `GemUserptr::flags`: take the pages now.
pub const USERPTR_VALIDATE: u32 = 4;
/// `GemUserptr::flags`: follow changes of the memory map.
pub const USERPTR_REGISTER: u32 = 8;

/// Argument of VERSION: three strings are written to the addresses given.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct VersionArgs {
    /// Major version of the driver's interface.
    pub major: i32,
    /// Minor version.
    pub minor: i32,
    /// Patch level.
    pub patch: i32,
    /// 0.
    pub pad: u32,
    /// In: room for the name. Out: its length.
    pub name_len: u64,
    /// Address for the name.
    pub name: u64,
    /// In: room for the date. Out: its length.
    pub date_len: u64,
    /// Address for the date.
    pub date: u64,
    /// In: room for the description. Out: its length.
    pub desc_len: u64,
    /// Address for the description.
    pub desc: u64,
}

/// Argument of GEM_CLOSE.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct GemClose {
    /// The handle.
    pub handle: u32,
    /// 0.
    pub pad: u32,
}

/// Argument of PRIME_HANDLE_TO_FD.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct PrimeHandleToFd {
    /// The handle.
    pub handle: u32,
    /// O_CLOEXEC, O_RDWR.
    pub flags: u32,
    /// Out: the dma-buf.
    pub fd: i32,
}

/// Argument of PRIME_FD_TO_HANDLE; the same layout as [`PrimeHandleToFd`].
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct PrimeFdToHandle {
    /// Out: the handle.
    pub handle: u32,
    /// 0.
    pub flags: u32,
    /// The dma-buf.
    pub fd: i32,
}

/// Argument of GEM_CREATE, a union: the answer, a u32 handle, overwrites the low half of the size.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct GemCreate {
    /// In: bytes. Out: the handle, in the low 32 bits.
    pub bo_size: u64,
    /// Bytes.
    pub alignment: u64,
    /// `DOMAIN_` bits.
    pub domains: u64,
    /// Flags of the object.
    pub domain_flags: u64,
}

/// Argument of GEM_MMAP, a union.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct GemMmap {
    /// In: the handle, in the low 32 bits. Out: the mapping offset.
    pub handle_or_offset: u64,
}

/// Argument of CTX, a union: the answer, the context's id, overwrites `op`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Ctx {
    /// In: one of the `CTX_` constants. Out: the context.
    pub op: u32,
    /// 0.
    pub flags: u32,
    /// In: the context.
    pub ctx_id: u32,
    /// 0 is the ordinary priority.
    pub priority: i32,
}

/// Argument of CS, a union: the answer, a u64 sequence number, overwrites the first two fields.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Cs {
    /// In: the context. Out: low half of the sequence number.
    pub ctx_id: u32,
    /// In: a BO list, 0 for none. Out: high half of the sequence number.
    pub bo_list_handle: u32,
    /// Entries in the array at `chunks`.
    pub num_chunks: u32,
    /// 0.
    pub flags: u32,
    /// Address of an array of u64, each the address of a [`Chunk`].
    pub chunks: u64,
}

/// One part of a submission.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Chunk {
    /// One of the `CHUNK_` constants.
    pub id: u32,
    /// Size of the data in units of 4 bytes.
    pub length_dw: u32,
    /// Address of the data.
    pub data: u64,
}

/// Data of an IB chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ChunkIb {
    /// 0.
    pub pad: u32,
    /// 0.
    pub flags: u32,
    /// Where the GPU finds the commands.
    pub va_start: u64,
    /// Their bytes.
    pub ib_bytes: u32,
    /// Engine type.
    pub ip_type: u32,
    /// Which of several of that type.
    pub ip_instance: u32,
    /// Which ring of it.
    pub ring: u32,
}

/// Data of a BO-handles chunk (and argument of BO_LIST).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct BoListIn {
    /// Of no meaning in a chunk.
    pub operation: u32,
    /// Of no meaning in a chunk.
    pub list_handle: u32,
    /// Entries in the array.
    pub bo_number: u32,
    /// Bytes of an entry.
    pub bo_info_size: u32,
    /// Address of an array of [`BoListEntry`].
    pub bo_info: u64,
}

/// One object that a job touches.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct BoListEntry {
    /// The handle.
    pub handle: u32,
    /// 0 is the ordinary priority.
    pub priority: u32,
}

/// Argument of INFO.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Info {
    /// Address for the answer.
    pub return_pointer: u64,
    /// Room there, in bytes; a shorter answer leaves the rest alone.
    pub return_size: u32,
    /// One of the `INFO_` constants.
    pub query: u32,
    /// Arguments of the query.
    pub args: [u32; 4],
}

/// Argument of GEM_VA.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct GemVa {
    /// The object.
    pub handle: u32,
    /// 0.
    pub pad: u32,
    /// `VA_MAP`, `VA_UNMAP`.
    pub operation: u32,
    /// The other `VA_` bits.
    pub flags: u32,
    /// GPU virtual address.
    pub va_address: u64,
    /// Start within the object, in bytes.
    pub offset_in_bo: u64,
    /// Bytes.
    pub map_size: u64,
    /// Newer kernels only; 0.
    pub timeline_point: u64,
    /// Newer kernels only; 0.
    pub timeline_syncobj_out: u32,
    /// Newer kernels only; 0.
    pub num_syncobj_handles: u32,
    /// Newer kernels only; 0.
    pub input_fence_syncobj_handles: u64,
}

/// Argument of WAIT_CS, a union: the answer, a u64 status, overwrites the sequence number.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct WaitCs {
    /// In: sequence number of the job. Out: 0 when it is done, 1 when it is not yet.
    pub handle_or_status: u64,
    /// Until when to wait: nanoseconds of CLOCK_MONOTONIC.
    pub timeout: u64,
    /// Engine type.
    pub ip_type: u32,
    /// Which of several of that type.
    pub ip_instance: u32,
    /// Which ring of it.
    pub ring: u32,
    /// The context.
    pub ctx_id: u32,
}

/// Argument of GEM_OP.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct GemOp {
    /// The handle.
    pub handle: u32,
    /// What to do.
    pub op: u32,
    /// Address for the answer, or a value.
    pub value: u64,
    /// Newer kernels only; 0.
    pub num_entries: u32,
    /// 0.
    pub pad: u32,
}

/// Argument of GEM_USERPTR.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct GemUserptr {
    /// First byte, page aligned.
    pub addr: u64,
    /// Bytes, whole pages.
    pub size: u64,
    /// `USERPTR_` bits.
    pub flags: u32,
    /// Out: the handle.
    pub handle: u32,
}

/// Argument of GEM_LIST_HANDLES.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct GemListHandles {
    /// Address of an array of [`HandleEntry`].
    pub entries: u64,
    /// In: room in the array. Out: entries that there are.
    pub num_entries: u32,
    /// 0.
    pub pad: u32,
}

/// One handle of a file.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct HandleEntry {
    /// The handle.
    pub gem_handle: u32,
    /// Bit 0: the object was imported.
    pub flags: u32,
    /// Bytes.
    pub size: u64,
    /// `DOMAIN_` bits.
    pub preferred_domains: u64,
    /// Flags of the object.
    pub alloc_flags: u64,
    /// Bytes.
    pub alignment: u64,
}

/// Answer of `INFO_HW_IP`, as far as kernel 6.12 gives it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct HwIpInfo {
    /// Generation of the engine.
    pub major: u32,
    /// Its step.
    pub minor: u32,
    /// Capabilities.
    pub caps: u64,
    /// Alignment of the start of commands, bytes.
    pub ib_start_alignment: u32,
    /// Alignment of their length, bytes.
    pub ib_size_alignment: u32,
    /// One bit for each usable ring.
    pub available_rings: u32,
    /// Generation, stepping and revision.
    pub ip_discovery_version: u32,
}

/// Answer of `INFO_DEV`: 440 bytes in the newest header, of which we name what we use.
#[repr(C)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DevInfoRaw {
    /// PCI device id.
    pub device_id: u32,
    /// Not used here.
    pub chip: [u32; 3],
    /// GPU family, see [`crate::drm::Family`].
    pub family: u32,
    /// Not used here.
    pub engines: [u32; 29],
    /// Bit flags.
    pub ids_flags: u64,
    /// Lowest address that user space may map.
    pub virtual_address_offset: u64,
    /// End of the addresses that user space may map.
    pub virtual_address_max: u64,
    /// Alignment of mappings, bytes.
    pub virtual_address_alignment: u32,
    /// Not used here.
    pub pte_fragment_size: u32,
    /// Bytes of a GART page.
    pub gart_page_size: u32,
    /// Not used here.
    pub middle: [u32; 41],
    /// Start of the upper part of the address space, 0 when there is none.
    pub high_va_offset: u64,
    /// Its end.
    pub high_va_max: u64,
    /// Not used here.
    pub tail: [u32; 22],
}
