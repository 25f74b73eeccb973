//! Device numbers.

use std::fmt;
use std::os::fd::AsFd;

use rocferry_topology::RenderMinor;
use rustix::fs::{FileType, fstat, major, makedev, minor};
use rustix::io::Errno;

/// Major number of all DRM devices.
pub(crate) const DRM_MAJOR: u32 = 226;
/// Lowest minor number of a render node; below lie the primary nodes.
pub(crate) const FIRST_RENDER_MINOR: u32 = 128;

/// The number of a character device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// Says which driver.
    pub major: u32,
    /// Says which device of the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// The number of an inode with this mode and `dev_t` (`st_mode` and `st_rdev` of `stat`), or `None`
    /// when it is no character device: block devices have numbers of their own, which may be the same.
    #[must_use]
    pub fn of_inode(mode: u32, rdev: u64) -> Option<Self> {
        let character = FileType::from_raw_mode(mode) == FileType::CharacterDevice;
        character.then(|| Self {
            major: major(rdev),
            minor: minor(rdev),
        })
    }

    /// The number of the render node with this minor number.
    #[must_use]
    pub fn of_render_node(minor: RenderMinor) -> Self {
        Self {
            major: DRM_MAJOR,
            minor: minor.get(),
        }
    }

    /// The `dev_t`.
    #[must_use]
    pub fn raw(self) -> u64 {
        makedev(self.major, self.minor)
    }

    /// The number of an open file, or `None` when it is no character device. Sends nothing to the
    /// device, so it is safe on files of any driver.
    ///
    /// # Errors
    /// The errno of `fstat`.
    pub fn of(fd: impl AsFd) -> Result<Option<Self>, Errno> {
        let stat = fstat(fd)?;
        Ok(Self::of_inode(stat.st_mode, stat.st_rdev))
    }

    /// Is this a render node of some DRM driver (not necessarily amdgpu)?
    #[must_use]
    pub fn is_render_node(self) -> bool {
        self.major == DRM_MAJOR && self.minor >= FIRST_RENDER_MINOR
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}
