//! Which device files are ours: told by their numbers, never by their paths.
//!
//! A path says little: nodes are bind-mounted, renamed, reached through symbolic links, and other vendors'
//! render nodes have the same names. KFD's own sysfs tree is the authority for both kinds.

use std::collections::BTreeMap;
use std::path::Path;

use rocferry_kfd::{DeviceNumber, Sysfs};
use rocferry_topology::{ActualGpuId, RenderMinor, SYSFS_ROOT, System};

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
        let system = System::read(Path::new(SYSFS_ROOT))
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

    /// What a device number stands for; `None` for everything that is not ours.
    pub(crate) fn classify(&self, number: DeviceNumber) -> Option<Device> {
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
