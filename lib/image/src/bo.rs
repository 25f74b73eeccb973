//! Buffer objects as the kfd image lists them.

use rocferry_topology::UserGpuId;

/// Page size that sizes of buffer objects are multiples of.
pub const PAGE_SIZE: u64 = 4096;

bitflags::bitflags! {
    /// How a buffer object was allocated: `KFD_IOC_ALLOC_MEM_FLAGS_*` of the kernel's
    /// `kfd_ioctl.h` (1.17). Unknown bits are kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct BoFlags: u32 {
        /// In the memory of the GPU.
        const VRAM = 1 << 0;
        /// In host memory that the GPU reaches.
        const GTT = 1 << 1;
        /// Memory of the process itself; its content is in CRIU's own images.
        const USERPTR = 1 << 2;
        /// Doorbell page; has no content.
        const DOORBELL = 1 << 3;
        /// Remapped registers; has no content.
        const MMIO_REMAP = 1 << 4;
        /// Physically contiguous.
        const CONTIGUOUS = 1 << 23;
        /// Coherent over several devices and the CPU.
        const EXT_COHERENT = 1 << 24;
        /// Not cached.
        const UNCACHED = 1 << 25;
        /// Coherent.
        const COHERENT = 1 << 26;
        /// Ring of an AQL queue, mapped twice.
        const AQL_QUEUE_MEM = 1 << 27;
        /// No fallback to another kind of memory.
        const NO_SUBSTITUTE = 1 << 28;
        /// The CPU can reach it.
        const PUBLIC = 1 << 29;
        /// The GPU may execute it.
        const EXECUTABLE = 1 << 30;
        /// The GPU may write it.
        const WRITABLE = 1 << 31;

        const _ = !0;
    }
}

impl BoFlags {
    /// Its content is in the pages file: VRAM and GTT.
    #[must_use]
    pub const fn has_pages(self) -> bool {
        self.intersects(Self::VRAM.union(Self::GTT))
    }
}

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
