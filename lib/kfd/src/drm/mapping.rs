//! Memory mapped into this process.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

use crate::KfdError;

/// A mapping of this process, readable and writable, removed when dropped.
///
/// It gives out no reference to the memory: a GPU may read and write it at any time, and only the user
/// knows when it does not.
#[derive(Debug)]
pub struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the type only owns an address range; what is done with the bytes is up to unsafe code elsewhere.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared references give out the address and nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` at `offset`, shared with the object behind it.
    ///
    /// # Errors
    /// [`KfdError::Call`].
    pub fn of_file(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self, KfdError> {
        const OP: &str = "mmap of a buffer object";
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: without MAP_FIXED the kernel chooses free addresses, so nothing existing changes.
        let ptr = unsafe { rustix::mm::mmap(hint, len, prot, MapFlags::SHARED, fd, offset) }
            .map_err(|errno| KfdError::Call { op: OP, errno })?;
        Self::new(ptr.cast(), len, OP)
    }

    /// Maps `len` bytes of zeroed memory. Pages come into being when they are first touched.
    ///
    /// # Errors
    /// [`KfdError::Call`].
    pub fn anonymous(len: usize) -> Result<Self, KfdError> {
        const OP: &str = "mmap of memory";
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: without MAP_FIXED the kernel chooses free addresses, so nothing existing changes.
        let ptr = unsafe { rustix::mm::mmap_anonymous(hint, len, prot, MapFlags::PRIVATE) }
            .map_err(|errno| KfdError::Call { op: OP, errno })?;
        Self::new(ptr.cast(), len, OP)
    }

    fn new(ptr: *mut u8, len: usize, op: &'static str) -> Result<Self, KfdError> {
        let ptr = NonNull::new(ptr).ok_or(KfdError::BadAnswer {
            op,
            what: "mapped at address 0",
        })?;
        Ok(Self { ptr, len })
    }

    /// The first byte. Valid for reads and writes of [`Mapping::len`] bytes while `self` lives.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Bytes mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is nothing mapped? Never: the kernel refuses empty mappings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: we made this mapping, nobody else removes it, and users of the address keep us alive.
        // It can only fail when the kernel has no memory to split an area, and then it stays mapped.
        let _ = unsafe { rustix::mm::munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}
