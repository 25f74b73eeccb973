//! Which device files are ours: told by their numbers, never by their paths.
//!
//! A path says little: nodes are bind-mounted, renamed, reached through symbolic links, and other vendors'
//! render nodes have the same names. KFD's own sysfs tree is the authority for both kinds.

use std::collections::BTreeMap;

use rocferry_kfd::{DeviceNumber, Sysfs};
use rocferry_topology::{ActualGpuId, RenderMinor, System};

use crate::host::{Host, log_at};

/// Major number of DRM character devices (`include/drm/drm_file.h`: DRM_MAJOR).
const DRM_MAJOR: u32 = 226;

/// The usual path of the KFD device.
pub(crate) const KFD_PATH: &str = "/dev/kfd";

/// A device file that belongs to the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Device {
    /// `/dev/kfd`.
    Kfd,
    /// The render node of a GPU in KFD's topology.
    Render(RenderMinor),
}

/// The device numbers of this host, read once per dump or task.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    kfd: Option<DeviceNumber>,
    gpu_of: BTreeMap<RenderMinor, ActualGpuId>,
    system: Option<System>,
}

impl Devices {
    /// Reads the numbers. A host without KFD has none, which is no error: nothing is ours there. A topology
    /// that cannot be read is one, but other processes must not suffer: it is logged, and no render node is
    /// recognised.
    pub(crate) fn read(host: &dyn Host) -> Self {
        let Ok(Some(kfd)) = Sysfs::default().kfd_device() else {
            return Self::default();
        };
        let system = System::read_live()
            .inspect_err(|error| {
                log_at!(
                    host,
                    Error,
                    "No render node is recognised: {}",
                    crate::error::chain(error)
                );
            })
            .ok();
        let gpu_of = system
            .iter()
            .flat_map(System::gpus)
            .map(|gpu| (gpu.render_minor, gpu.id))
            .collect();
        Self {
            kfd: Some(kfd),
            gpu_of,
            system,
        }
    }

    /// What an inode with this mode and `dev_t` (`st_mode` and `st_rdev`) is; `None` for everything that is
    /// not ours, block devices with our numbers among it.
    pub(crate) fn classify(&self, mode: u32, rdev: u64) -> Option<Device> {
        let number = DeviceNumber::of_inode(mode, rdev)?;
        if self.kfd == Some(number) {
            return Some(Device::Kfd);
        }
        let minor = RenderMinor(number.minor);
        (number.major == DRM_MAJOR && self.gpu_of.contains_key(&minor))
            .then_some(Device::Render(minor))
    }

    /// The GPU behind a render node.
    pub(crate) fn gpu(&self, minor: RenderMinor) -> Option<ActualGpuId> {
        self.gpu_of.get(&minor).copied()
    }

    /// The topology as this process sees it; `None` without KFD or when it cannot be read.
    pub(crate) fn system(&self) -> Option<&System> {
        self.system.as_ref()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rustix::fs::FileType;

    use super::*;

    /// What `st_mode` says of a character device.
    pub(crate) fn character() -> u32 {
        FileType::CharacterDevice.as_raw_mode() | 0o666
    }

    /// What it says of a block device.
    pub(crate) fn block() -> u32 {
        FileType::BlockDevice.as_raw_mode() | 0o660
    }

    fn number(major: u32, minor: u32) -> DeviceNumber {
        DeviceNumber { major, minor }
    }

    /// A host with this KFD and one GPU, `renderD129`.
    pub(crate) fn devices(kfd: DeviceNumber) -> Devices {
        Devices {
            kfd: Some(kfd),
            gpu_of: [(RenderMinor(129), ActualGpuId(0xbeef))].into(),
            system: None,
        }
    }

    #[test]
    fn character_devices_with_our_numbers_are_ours() {
        let devices = devices(number(511, 0));
        let render = Device::Render(RenderMinor(129));
        for (node, device) in [
            (number(511, 0), Some(Device::Kfd)),
            (number(DRM_MAJOR, 129), Some(render)),
            (number(511, 1), None),
            (number(510, 0), None),
            // Another driver's render node, the primary node of ours, and a device of the same minor.
            (number(DRM_MAJOR, 128), None),
            (number(DRM_MAJOR, 1), None),
            (number(7, 129), None),
        ] {
            assert_eq!(devices.classify(character(), node.raw()), device, "{node}");
        }
    }

    #[test]
    fn nothing_else_with_our_numbers_is_ours() {
        let devices = devices(number(511, 0));
        let others = [FileType::RegularFile, FileType::Fifo, FileType::Socket]
            .map(|kind| kind.as_raw_mode() | 0o666);
        for node in [number(511, 0), number(DRM_MAJOR, 129)] {
            for mode in others.into_iter().chain([block(), 0]) {
                assert_eq!(devices.classify(mode, node.raw()), None, "{mode:o} {node}");
            }
        }
    }

    #[test]
    fn without_kfd_nothing_is_ours() {
        let none = Devices::default();
        for node in [number(0, 0), number(511, 0), number(DRM_MAJOR, 129)] {
            assert_eq!(none.classify(character(), node.raw()), None, "{node}");
        }
    }
}
