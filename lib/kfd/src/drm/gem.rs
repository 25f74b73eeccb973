//! Buffer objects by handle.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::abi::{
    GEM_OP_CREATE_INFO, GemClose, GemCreate, GemListHandles, GemMmap, GemOp, GemUserptr,
    HandleEntry, USERPTR_ANONONLY, USERPTR_REGISTER, USERPTR_VALIDATE,
};
use super::{Mapping, abi};
use crate::ioctl::{address_mut, call};
use crate::kfd::zeroed;
use crate::{KfdError, RenderNode};

/// The number of a buffer object in one open file. It says nothing in another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GemHandle(pub u32);

/// How an object was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateInfo {
    /// Bytes.
    pub size: u64,
    /// Bytes.
    pub alignment: u64,
    /// `DOMAIN_` bits.
    pub domains: u64,
    /// Flags of the object.
    pub flags: u64,
}

/// A handle that a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleInfo {
    /// The handle.
    pub handle: GemHandle,
    /// Was the object imported through a dma-buf?
    pub imported: bool,
    /// How it was made.
    pub info: CreateInfo,
}

impl RenderNode {
    /// Makes an object of `size` bytes (rounded up to pages) in host memory that the GPU reaches. No
    /// memory of the caller's is pinned.
    ///
    /// # Errors
    /// [`KfdError::Call`].
    pub fn gem_create_gtt(&self, size: u64) -> Result<GemHandle, KfdError> {
        self.gem_create(size, abi::DOMAIN_GTT)
    }

    /// Makes an object of `size` bytes (rounded up to pages) in the given `DOMAIN_`.
    ///
    /// # Errors
    /// [`KfdError::Call`].
    pub fn gem_create(&self, size: u64, domains: u64) -> Result<GemHandle, KfdError> {
        let mut args = GemCreate {
            bo_size: size,
            domains,
            ..GemCreate::default()
        };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "GEM_CREATE", &mut args) }?;
        Ok(GemHandle(low_half(args.bo_size)))
    }

    /// Drops a handle, and with it the mappings of the object in this file's GPU address space.
    ///
    /// # Errors
    /// [`KfdError::Call`]: EINVAL when the handle is unknown.
    pub fn gem_close(&self, handle: GemHandle) -> Result<(), KfdError> {
        let mut args = GemClose {
            handle: handle.0,
            pad: 0,
        };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "GEM_CLOSE", &mut args) }
    }

    /// Where in the render node the object can be mapped.
    ///
    /// # Errors
    /// [`KfdError::Call`]: ENOENT when the handle is unknown, EPERM when the object may not be mapped.
    pub fn gem_mmap_offset(&self, handle: GemHandle) -> Result<u64, KfdError> {
        let mut args = GemMmap {
            handle_or_offset: u64::from(handle.0),
        };
        // SAFETY: the structure has no addresses.
        unsafe { call(self.as_fd(), "GEM_MMAP", &mut args) }?;
        Ok(args.handle_or_offset)
    }

    /// Maps the first `len` bytes of an object.
    ///
    /// # Errors
    /// [`KfdError::Call`], from the offset or from the mapping.
    pub fn gem_map(&self, handle: GemHandle, len: usize) -> Result<Mapping, KfdError> {
        let offset = self.gem_mmap_offset(handle)?;
        Mapping::of_file(self.as_fd(), offset, len)
    }

    /// How an object was made, or `None` when the file has no such handle. Changes nothing, so it also
    /// serves to find out which handles a foreign file has.
    ///
    /// # Errors
    /// [`KfdError::Call`] for everything but ENOENT.
    pub fn gem_create_info(&self, handle: GemHandle) -> Result<Option<CreateInfo>, KfdError> {
        let mut info = [GemCreate::default()];
        let mut args = GemOp {
            handle: handle.0,
            op: GEM_OP_CREATE_INFO,
            value: address_mut(&mut info),
            ..GemOp::default()
        };
        // SAFETY: the operation writes one GemCreate at `value`, which is borrowed for writing.
        match unsafe { call(self.as_fd(), "GEM_OP GET_GEM_CREATE_INFO", &mut args) } {
            Ok(()) => {}
            Err(KfdError::Call {
                errno: Errno::NOENT,
                ..
            }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let [info] = info;
        Ok(Some(CreateInfo {
            size: info.bo_size,
            alignment: info.alignment,
            domains: info.domains,
            flags: info.domain_flags,
        }))
    }

    /// All handles of the file, or `None` when the kernel cannot list them (6.12 cannot).
    ///
    /// # Errors
    /// [`KfdError::Call`] for everything but EINVAL, which is the answer of a kernel without the call;
    /// [`KfdError::BadAnswer`] when the list keeps growing.
    pub fn list_handles(&self) -> Result<Option<Vec<HandleInfo>>, KfdError> {
        const OP: &str = "GEM_LIST_HANDLES";
        let mut room = 64_u32;
        for _ in 0..8 {
            let mut entries = zeroed::<HandleEntry>(OP, u64::from(room))?;
            let mut args = GemListHandles {
                entries: address_mut(&mut entries),
                num_entries: room,
                pad: 0,
            };
            // SAFETY: the array is borrowed for writing and has `num_entries` entries.
            match unsafe { call(self.as_fd(), OP, &mut args) } {
                Ok(()) => {}
                Err(KfdError::Call {
                    errno: Errno::INVAL,
                    ..
                }) => return Ok(None),
                Err(error) => return Err(error),
            }
            if args.num_entries <= room {
                entries.truncate(args.num_entries as usize);
                return Ok(Some(entries.iter().map(handle_info).collect()));
            }
            // Leave room for what is added until the next call.
            room = args.num_entries.saturating_add(16);
        }
        Err(KfdError::BadAnswer {
            op: OP,
            what: "the number of handles keeps growing",
        })
    }

    /// Makes an object of memory of the caller's own: anonymous, writable for the GPU, its pages taken
    /// at once.
    ///
    /// # Errors
    /// [`KfdError::Call`]; [`KfdError::BadArgument`] when the length is no multiple of the page size.
    pub fn gem_userptr(&self, memory: &Mapping) -> Result<GemHandle, KfdError> {
        const OP: &str = "GEM_USERPTR";
        if !memory.len().is_multiple_of(4096) {
            return Err(KfdError::BadArgument {
                op: OP,
                what: "not a whole number of pages",
            });
        }
        let mut args = GemUserptr {
            addr: memory.as_ptr().expose_provenance().get() as u64,
            size: memory.len() as u64,
            flags: USERPTR_ANONONLY | USERPTR_VALIDATE | USERPTR_REGISTER,
            handle: 0,
        };
        // SAFETY: the address is that of a live mapping of that length; the kernel follows it through
        // the memory map, so that a later unmapping is no danger.
        unsafe { call(self.as_fd(), OP, &mut args) }?;
        Ok(GemHandle(args.handle))
    }
}

fn handle_info(entry: &HandleEntry) -> HandleInfo {
    HandleInfo {
        handle: GemHandle(entry.gem_handle),
        imported: entry.flags & 1 != 0,
        info: CreateInfo {
            size: entry.size,
            alignment: entry.alignment,
            domains: entry.preferred_domains,
            flags: entry.alloc_flags,
        },
    }
}

/// Answers that overwrite part of the question lie in the low half of its first field.
pub(super) fn low_half(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
