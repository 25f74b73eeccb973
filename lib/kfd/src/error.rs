//! The error of every operation of this crate.

use std::path::PathBuf;

use rustix::io::Errno;

use crate::DeviceNumber;

/// Why an operation on KFD, on a render node or on their sysfs files failed.
///
/// The kernel's errno stays inside as the source: callers decide what it means. It must never become
/// the return code of a CRIU hook unchanged, since EOPNOTSUPP there says "not mine".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KfdError {
    /// The kernel refused an ioctl or another call on a device file.
    #[error("{op} failed")]
    Call {
        /// The kernel's name of the operation, with the sub-operation where there is one.
        op: &'static str,
        /// What the kernel answered.
        #[source]
        errno: Errno,
    },
    /// A file could not be opened, examined or read.
    #[error("Cannot use {path:?}")]
    Path {
        /// The file.
        path: PathBuf,
        /// What the kernel answered.
        #[source]
        errno: Errno,
    },
    /// The file is another device than the one that was wanted.
    #[error("Device {found} is not {wanted}")]
    WrongDevice {
        /// What it is.
        found: FoundDevice,
        /// What was wanted, in words.
        wanted: &'static str,
    },
    /// The render node belongs to another driver.
    #[error("Render node {device} belongs to driver {driver:?}, not amdgpu")]
    WrongDriver {
        /// The node.
        device: DeviceNumber,
        /// The driver's name as the kernel gives it.
        driver: String,
    },
    /// The kernel answered something that its own rules exclude.
    #[error("{op} gave an impossible answer: {what}")]
    BadAnswer {
        /// The operation.
        op: &'static str,
        /// What is wrong with the answer.
        what: &'static str,
    },
    /// A caller's argument cannot be expressed in the kernel's structure.
    #[error("{op} cannot take this argument: {what}")]
    BadArgument {
        /// The operation.
        op: &'static str,
        /// What is wrong with the argument.
        what: &'static str,
    },
    /// The memory for the kernel's answer is not to be had.
    #[error("{op} needs {bytes} bytes for its answer, which are not to be had")]
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// How many bytes.
        bytes: u64,
    },
    /// A file of sysfs or procfs holds something that cannot be understood.
    #[error("Cannot understand {path:?}: {text:?}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The start of what it holds.
        text: String,
    },
}

impl KfdError {
    /// The kernel's errno, when it is the kernel that refused.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Call { errno, .. } | Self::Path { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// The device that was found instead of the wanted one, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundDevice(pub Option<DeviceNumber>);

impl std::fmt::Display for FoundDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(device) => device.fmt(f),
            None => f.write_str("(no character device)"),
        }
    }
}
