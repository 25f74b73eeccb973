//! What CHECKPOINT reports of devices and buffer objects.

use std::os::fd::OwnedFd;

use rocferry_topology::{ActualGpuId, UserGpuId};

use crate::BoFlags;

/// One GPU of a dumped process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointedDevice {
    /// The id that the application knows.
    pub user: UserGpuId,
    /// The id in this machine's topology.
    pub actual: ActualGpuId,
}

/// One buffer object of a dumped process. The order in which the kernel lists them must be kept.
#[derive(Debug)]
pub struct CheckpointedBo {
    /// GPU virtual address.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Mapping offset, see [`Offset`].
    pub offset: u64,
    /// The GPU, by the id that the application knows.
    pub gpu: UserGpuId,
    /// What kind of memory it is.
    pub flags: BoFlags,
    /// A dma-buf of the object (close-on-exec), for VRAM and GTT.
    pub dmabuf: Option<OwnedFd>,
}

/// A mapping offset of `/dev/kfd`, taken apart (kernel 6.12): the two highest bits say what is mapped,
/// the next 16 carry the ACTUAL id of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// The process's doorbells on a GPU.
    Doorbell(ActualGpuId),
    /// The page of signalled events.
    Events,
    /// The trap handler's save area, which the driver itself maps on some devices.
    ReservedMemory(ActualGpuId),
    /// The page of remapped registers of a GPU.
    Mmio(ActualGpuId),
}

impl Offset {
    /// Takes a byte offset into `/dev/kfd` apart.
    #[must_use]
    pub fn of_kfd(offset: u64) -> Self {
        // 16 bits are left of the shift's result, so the conversion loses nothing.
        let gpu = ActualGpuId(u32::try_from((offset >> 46) & 0xffff).unwrap_or_default());
        match offset >> 62 {
            3 => Self::Doorbell(gpu),
            2 => Self::Events,
            1 => Self::ReservedMemory(gpu),
            _ => Self::Mmio(gpu),
        }
    }

    /// The offset that maps this; bits that the kernel ignores are 0.
    #[must_use]
    pub fn to_kfd(self) -> u64 {
        let (kind, gpu) = match self {
            Self::Doorbell(gpu) => (3, gpu),
            Self::Events => (2, ActualGpuId(0)),
            Self::ReservedMemory(gpu) => (1, gpu),
            Self::Mmio(gpu) => (0, gpu),
        };
        (kind << 62) | (u64::from(gpu.get() & 0xffff) << 46)
    }
}
