//! The kernel's AMD GPU interfaces: `/dev/kfd` and the amdgpu render nodes.
//!
//! This crate is the only place of rocferry that issues their ioctls. It turns each one into a safe
//! method of a type that owns the file ([`Kfd`], [`RenderNode`]), hands out every descriptor that the
//! kernel makes as an [`OwnedFd`](std::os::fd::OwnedFd) with close-on-exec set, and keeps the kernel's
//! errno together with the name of the operation in [`KfdError`].
//!
//! Layouts and request numbers are in [`kfd::abi`] and [`drm::abi`]; a golden test pins each of them.
//! [`Sysfs`] reads the few files of `/sys` and `/proc` that go with the two interfaces.
//!
//! An open `/dev/kfd` belongs to the address space that opened it: after a fork the child gets EBADF
//! from all of its ioctls and must open the device again.

pub mod drm;
pub mod kfd;

mod device;
mod error;
mod ioctl;
mod kcmp;
mod sysfs;

pub use device::DeviceNumber;
pub use drm::{Mapping, RenderNode};
pub use error::{FoundDevice, KfdError};
pub use kcmp::same_open_file;
pub use kfd::{BoFlags, Kfd};
pub use sysfs::{Sysfs, render_node_path};
