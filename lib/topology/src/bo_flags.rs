//! What kind of memory a buffer object is: one vocabulary for the kernel's interface and the images.

bitflags::bitflags! {
    /// How a buffer object was allocated: `KFD_IOC_ALLOC_MEM_FLAGS_*` of the kernel's
    /// `kfd_ioctl.h` (1.17). Unknown bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
    /// VRAM and GTT: the kinds whose contents lie in no process's memory. KFD hands out a dma-buf of each
    /// (CHECKPOINT and RESTORE of Linux 6.12), and a pages file holds them.
    #[must_use]
    pub const fn has_contents(self) -> bool {
        self.intersects(Self::VRAM.union(Self::GTT))
    }
}
