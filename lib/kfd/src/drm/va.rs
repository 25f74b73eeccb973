//! The GPU address space of an open file.

use std::os::fd::AsFd;

use super::GemHandle;
use super::abi::{GemVa, VA_EXECUTABLE, VA_MAP, VA_READABLE, VA_UNMAP, VA_WRITEABLE};
use crate::ioctl::call;
use crate::{KfdError, RenderNode};

bitflags::bitflags! {
    /// What the GPU may do with mapped memory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct VaAccess: u32 {
        /// Read.
        const READ = VA_READABLE;
        /// Write.
        const WRITE = VA_WRITEABLE;
        /// Execute.
        const EXECUTE = VA_EXECUTABLE;
    }
}

impl RenderNode {
    /// Maps `size` bytes of an object, from `offset` on, at the GPU virtual address `va`. All three are
    /// multiples of the page size.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EINVAL when something lies there already, or address or range are not
    /// possible; ENOENT when the handle is unknown.
    pub fn va_map(
        &self,
        handle: GemHandle,
        va: u64,
        offset: u64,
        size: u64,
        access: VaAccess,
    ) -> Result<(), KfdError> {
        let mut args = GemVa {
            handle: handle.0,
            operation: VA_MAP,
            flags: access.bits(),
            va_address: va,
            offset_in_bo: offset,
            map_size: size,
            ..GemVa::default()
        };
        // SAFETY: the only field that can be an address (fences to wait for) is 0.
        unsafe { call(self.as_fd(), "GEM_VA MAP", &mut args) }
    }

    /// Removes the mapping of an object that starts at `va`.
    ///
    /// # Errors
    /// [`KfdError::Call`]: ENOENT when there is none.
    pub fn va_unmap(&self, handle: GemHandle, va: u64, size: u64) -> Result<(), KfdError> {
        let mut args = GemVa {
            handle: handle.0,
            operation: VA_UNMAP,
            va_address: va,
            map_size: size,
            ..GemVa::default()
        };
        // SAFETY: the only field that can be an address (fences to wait for) is 0.
        unsafe { call(self.as_fd(), "GEM_VA UNMAP", &mut args) }
    }
}
