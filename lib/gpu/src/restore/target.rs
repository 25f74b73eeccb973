//! What a device mapping maps, whoever asks: the check after RESTORE or the hook of the mapping.

use rocferry_image::{DeviceVma, VmaKind};
use rocferry_topology::UserGpuId;

/// What a mapping maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Kfd,
    Render(UserGpuId),
    /// A GPU device, but none of this task's checkpoint.
    Unknown,
}

impl From<&DeviceVma> for Target {
    fn from(vma: &DeviceVma) -> Self {
        match (vma.kind, vma.gpu) {
            (VmaKind::Kfd, _) => Self::Kfd,
            (VmaKind::Render, Some(gpu)) => Self::Render(gpu),
            (VmaKind::Render, None) => Self::Unknown,
        }
    }
}
