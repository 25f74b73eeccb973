//! An amdgpu render node: buffer objects, the file's GPU address space, and jobs.
//!
//! GEM handles, contexts and the address space belong to the open file. A file of the application must
//! never be used to copy: closing a handle there takes it away from the application, and mappings may
//! collide with its own. Open the node again for that.

pub mod abi;
mod ctx;
mod gem;
mod info;
mod mapping;
mod prime;
mod va;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rocferry_topology::RenderMinor;
use rustix::fs::{Mode, OFlags};

pub use ctx::{Context, JobState};
pub use gem::{CreateInfo, GemHandle, HandleInfo};
pub use info::{DevInfo, Family};
pub use mapping::Mapping;
pub use va::VaAccess;

use crate::device::DeviceNumber;
use crate::ioctl::{address_mut, call};
use crate::kfd::Access;
use crate::{FoundDevice, KfdError};

/// The name by which the driver of AMD GPUs introduces itself.
pub const DRIVER: &str = "amdgpu";

/// An open amdgpu render node.
#[derive(Debug)]
pub struct RenderNode {
    fd: OwnedFd,
    minor: RenderMinor,
}

impl RenderNode {
    /// Opens the node at `path` (read and write, close-on-exec) and makes sure that it is one of amdgpu.
    ///
    /// # Errors
    /// [`KfdError::Path`] with the errno of the open; [`KfdError::WrongDevice`] when the path is no
    /// render node (it is then not opened at all); [`KfdError::WrongDriver`].
    pub fn open(path: &Path) -> Result<Self, KfdError> {
        Self::open_as(path, Access::ReadWrite)
    }

    /// As [`RenderNode::open`], with the access that is asked for.
    ///
    /// # Errors
    /// The same.
    pub fn open_as(path: &Path, access: Access) -> Result<Self, KfdError> {
        let failed = |errno| KfdError::Path {
            path: path.to_owned(),
            errno,
        };
        let stat = rustix::fs::stat(path).map_err(failed)?;
        render_minor(DeviceNumber::of_inode(stat.st_mode, stat.st_rdev))?;
        let flags = access.flags() | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        Self::from_fd(fd)
    }

    /// Opens the node with a minor number under its usual name in `/dev/dri`.
    ///
    /// # Errors
    /// As [`RenderNode::open`]; [`KfdError::WrongDevice`] also when another node hides behind the name.
    pub fn open_minor(minor: RenderMinor) -> Result<Self, KfdError> {
        let node = Self::open(&crate::sysfs::render_node_path(minor))?;
        if node.minor == minor {
            return Ok(node);
        }
        let found = DeviceNumber {
            major: crate::device::DRM_MAJOR,
            minor: node.minor.get(),
        };
        Err(KfdError::WrongDevice {
            found: FoundDevice(Some(found)),
            wanted: "the render node of its name",
        })
    }

    /// Takes over an open file and makes sure what it is: by its device number before anything is sent
    /// to it, then by asking for the driver's name.
    ///
    /// # Errors
    /// [`KfdError::WrongDevice`], [`KfdError::WrongDriver`], [`KfdError::Call`].
    pub fn from_fd(fd: OwnedFd) -> Result<Self, KfdError> {
        let device = DeviceNumber::of(&fd).map_err(|errno| KfdError::Call {
            op: "fstat of a render node",
            errno,
        })?;
        let minor = render_minor(device)?;
        let driver = driver_name(fd.as_fd())?;
        if driver != DRIVER {
            let device = DeviceNumber {
                major: crate::device::DRM_MAJOR,
                minor: minor.get(),
            };
            return Err(KfdError::WrongDriver { device, driver });
        }
        Ok(Self { fd, minor })
    }

    /// The node's minor number.
    #[must_use]
    pub fn minor(&self) -> RenderMinor {
        self.minor
    }

    /// Gives the file back.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for RenderNode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The minor number of a render node, or an error that says what the device is instead.
fn render_minor(device: Option<DeviceNumber>) -> Result<RenderMinor, KfdError> {
    match device {
        Some(number) if number.is_render_node() => Ok(RenderMinor(number.minor)),
        found => Err(KfdError::WrongDevice {
            found: FoundDevice(found),
            wanted: "a render node",
        }),
    }
}

/// The name of the driver behind a DRM file.
fn driver_name(fd: BorrowedFd<'_>) -> Result<String, KfdError> {
    // Longer names are cut off by the kernel, which is as good: they are not ours.
    let mut name = [0_u8; 32];
    let mut args = abi::VersionArgs {
        name_len: name.len() as u64,
        name: address_mut(&mut name),
        ..abi::VersionArgs::default()
    };
    // SAFETY: the name's buffer is borrowed for writing until the call returns; the rooms for date and
    // description are 0, so that nothing is written for them.
    unsafe { call(fd, "VERSION", &mut args) }?;
    let len = usize::try_from(args.name_len)
        .unwrap_or(usize::MAX)
        .min(name.len());
    Ok(String::from_utf8_lossy(&name[..len]).into_owned())
}
