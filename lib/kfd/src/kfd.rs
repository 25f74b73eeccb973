//! `/dev/kfd`: what a process's GPU state is and how it is taken and given back.

pub mod abi;
mod bo;
mod criu;
mod query;
mod restore;
mod xnack;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

pub use bo::{CheckpointedBo, CheckpointedDevice, Offset};
pub(crate) use criu::zeroed;
pub use criu::{Checkpoint, Counts};
pub use query::DmabufInfo;
pub use restore::{RestoreBo, RestoreDevice, RestoredBo};
pub use rocferry_topology::BoFlags;

use crate::device::DeviceNumber;
use crate::{FoundDevice, KfdError};

/// Major version of the interface that this crate speaks.
pub const INTERFACE_MAJOR: u32 = 1;
/// Lowest minor version that can dump: 1.8 brought SDMA copies of GTT objects.
pub const INTERFACE_MINOR_MIN: u32 = 8;

/// How a device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// As ROCm opens it.
    #[default]
    ReadWrite,
    /// Enough for every ioctl, not for mappings that are written to.
    ReadOnly,
}

impl Access {
    /// The access of a file with these status flags (`F_GETFL`).
    #[must_use]
    pub fn of_flags(flags: OFlags) -> Self {
        if flags & OFlags::ACCMODE == OFlags::RDONLY {
            Self::ReadOnly
        } else {
            Self::ReadWrite
        }
    }

    pub(crate) fn flags(self) -> OFlags {
        match self {
            Self::ReadWrite => OFlags::RDWR,
            Self::ReadOnly => OFlags::RDONLY,
        }
    }
}

/// An open `/dev/kfd`.
#[derive(Debug)]
pub struct Kfd {
    fd: OwnedFd,
}

impl Kfd {
    /// Opens the device at `path` (close-on-exec) for the calling process. The first open makes the
    /// process known to the driver, with every GPU that its device cgroup lets it use.
    ///
    /// # Errors
    /// [`KfdError::Path`] with the errno of the open; [`KfdError::WrongDevice`] when the path is no
    /// character device (it is then not opened at all).
    pub fn open(path: &Path, access: Access) -> Result<Self, KfdError> {
        let failed = |errno| KfdError::Path {
            path: path.to_owned(),
            errno,
        };
        let stat = rustix::fs::stat(path).map_err(failed)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode)
            != rustix::fs::FileType::CharacterDevice
        {
            return Err(KfdError::WrongDevice {
                found: FoundDevice(None),
                wanted: "/dev/kfd",
            });
        }
        let fd = rustix::fs::open(
            path,
            access.flags() | OFlags::CLOEXEC | OFlags::NOCTTY,
            Mode::empty(),
        )
        .map_err(failed)?;
        Ok(Self { fd })
    }

    /// Takes over an open `/dev/kfd`, for instance one received from the process that is dumped. The
    /// caller has made sure what it is (its device number against [`crate::Sysfs::kfd_device`]).
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Gives the file back.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The device number of the open file.
    ///
    /// # Errors
    /// [`KfdError::Call`] when `fstat` fails; [`KfdError::WrongDevice`] when it is no character device.
    pub fn device(&self) -> Result<DeviceNumber, KfdError> {
        DeviceNumber::of(&self.fd)
            .map_err(|errno| KfdError::Call {
                op: "fstat of /dev/kfd",
                errno,
            })?
            .ok_or(KfdError::WrongDevice {
                found: FoundDevice(None),
                wanted: "/dev/kfd",
            })
    }
}

impl AsFd for Kfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
