//! Buffer objects as the kfd image lists them.

use rocferry_topology::{BoFlags, UserGpuId};

/// Page size that sizes of buffer objects are multiples of.
pub const PAGE_SIZE: u64 = 4096;

/// A buffer object (`kfd_bo_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoEntry {
    /// GPU address.
    pub addr: u64,
    /// Size in bytes, a multiple of [`PAGE_SIZE`].
    pub size: u64,
    /// Offset for mmap at the time of the dump: of the render node for VRAM and GTT, of /dev/kfd for
    /// doorbells and registers.
    pub offset: u64,
    /// How it was allocated.
    pub flags: BoFlags,
    /// Where.
    pub gpu: UserGpuId,
    /// GEM handle that a newer C plugin had for it at the dump, in a file of its own. We write none.
    pub handle: Option<u32>,
}

/// What stands for "no handle" on disk.
pub(crate) const NO_HANDLE: u32 = u32::MAX;
