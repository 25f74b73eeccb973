//! Allocation flags of a KFD buffer object.

bitflags::bitflags! {
    /// What kind of memory a buffer object is and how it may be used: the `flags` of
    /// ALLOC_MEMORY_OF_GPU and `alloc_flags` of a BO bucket. Unknown bits are kept.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct BoFlags: u32 {
        /// The GPU's own memory.
        const VRAM = 1 << 0;
        /// Host memory that the driver allocates.
        const GTT = 1 << 1;
        /// Host memory of the application.
        const USERPTR = 1 << 2;
        /// The process's page of doorbells.
        const DOORBELL = 1 << 3;
        /// The page of remapped registers.
        const MMIO_REMAP = 1 << 4;
        /// Physically contiguous.
        const CONTIGUOUS = 1 << 23;
        /// Coherent beyond the device.
        const EXT_COHERENT = 1 << 24;
        /// Not cached.
        const UNCACHED = 1 << 25;
        /// Coherent at fine grain.
        const COHERENT = 1 << 26;
        /// Ring of an AQL queue; the kernel halves its size on old GPUs.
        const AQL_QUEUE_MEM = 1 << 27;
        /// Must not be placed elsewhere.
        const NO_SUBSTITUTE = 1 << 28;
        /// Visible to the CPU.
        const PUBLIC = 1 << 29;
        /// Holds code.
        const EXECUTABLE = 1 << 30;
        /// The GPU may write; also makes the dma-buf's file writable.
        const WRITABLE = 1 << 31;

        const _ = !0;
    }
}

impl BoFlags {
    /// Does KFD hand out a dma-buf for objects of this kind (kernel 6.12, CHECKPOINT and RESTORE)? Only
    /// these have contents that must be copied through the GPU.
    #[must_use]
    pub fn has_dmabuf(self) -> bool {
        self.intersects(Self::VRAM | Self::GTT)
    }
}
