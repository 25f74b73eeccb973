//! Objects to and from dma-bufs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::OFlags;

use super::GemHandle;
use super::abi::{PrimeFdToHandle, PrimeHandleToFd};
use crate::ioctl::call;
use crate::{KfdError, RenderNode};

impl RenderNode {
    /// Makes the object behind a dma-buf known to this file. An object that the file knows already
    /// keeps its handle, and a single [`RenderNode::gem_close`] then takes that handle away.
    ///
    /// # Errors
    /// [`KfdError::Call`].
    pub fn prime_fd_to_handle(&self, dmabuf: BorrowedFd<'_>) -> Result<GemHandle, KfdError> {
        let mut args = PrimeFdToHandle {
            fd: dmabuf.as_raw_fd(),
            ..PrimeFdToHandle::default()
        };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "PRIME_FD_TO_HANDLE", &mut args) }?;
        Ok(GemHandle(args.handle))
    }

    /// A dma-buf of an object, readable, writable, close-on-exec.
    ///
    /// # Errors
    /// [`KfdError::Call`]: ENOENT when the handle is unknown, EPERM when the object may not be shared.
    pub fn prime_handle_to_fd(&self, handle: GemHandle) -> Result<OwnedFd, KfdError> {
        const OP: &str = "PRIME_HANDLE_TO_FD";
        let flags = (OFlags::CLOEXEC | OFlags::RDWR).bits();
        let mut args = PrimeHandleToFd {
            handle: handle.0,
            flags,
            fd: -1,
        };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), OP, &mut args) }?;
        if args.fd < 0 {
            return Err(KfdError::BadAnswer {
                op: OP,
                what: "no descriptor",
            });
        }
        // SAFETY: the kernel has just put this descriptor into our table for us alone.
        Ok(unsafe { OwnedFd::from_raw_fd(args.fd) })
    }
}
