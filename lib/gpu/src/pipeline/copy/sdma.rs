//! Copies by the GPU's own copy engine, through a private open of the render node.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rocferry_kfd::drm::{Context, Family, GemHandle, JobState, VaAccess};
use rocferry_kfd::{Mapping, RenderNode};

use super::super::budget::PAGE;
use super::packet::{add_copy, most_dwords, pad};
use super::space::Space;
use super::{Attached, CopyEngine, CopyError, CopyJob, Direction, MAX_PARTS, Ticket, Waited};
use crate::pipeline::{RingLayout, Slot, Staging};

/// Alignment of the start of commands.
const COMMAND_ALIGNMENT: usize = 256;

/// The SDMA engine of one GPU, on a file that was opened for it alone: never the application's, whose
/// handles and addresses it would disturb, and never one given to KFD RESTORE, which holds the
/// application's address space.
///
/// Registers two objects in host memory for each ring: the ring itself and the commands, one place for each
/// slot. Everything that is mapped for the GPU has an unmapped gap on both sides, the slots too. Closing the
/// file, when the engine is dropped, gives everything back.
#[derive(Debug)]
pub struct SdmaEngine {
    node: RenderNode,
    context: Context,
    family: Family,
    space: Space,
    ring: Option<Ring>,
    bos: HashMap<u64, Bo>,
    next_bo: u64,
    /// How many attached ranges share a handle: the kernel gives one handle for one object, however often
    /// it is imported, and a single close takes it away.
    handles: HashMap<GemHandle, usize>,
}

#[derive(Debug)]
struct Ring {
    staging: GemHandle,
    /// GPU address of each slot.
    slots: Vec<u64>,
    commands: GemHandle,
    commands_va: u64,
    commands_memory: Mapping,
    /// Bytes between the commands of two slots.
    stride: usize,
}

#[derive(Debug)]
struct Bo {
    handle: GemHandle,
    va: u64,
    len: u64,
}

impl SdmaEngine {
    /// Takes over a render node that was opened for this engine.
    ///
    /// # Errors
    /// [`CopyError::Kernel`].
    pub fn new(node: RenderNode) -> Result<Self, CopyError> {
        let info = node.dev_info()?;
        let context = node.ctx_alloc()?;
        Ok(Self {
            node,
            context,
            family: info.family,
            space: Space::new(info.va_range()),
            ring: None,
            bos: HashMap::new(),
            next_bo: 0,
            handles: HashMap::new(),
        })
    }

    /// Maps an object at a free address.
    fn map(
        &mut self,
        handle: GemHandle,
        offset: u64,
        len: u64,
        access: VaAccess,
    ) -> Result<u64, CopyError> {
        let len = len.next_multiple_of(PAGE);
        let va = self
            .space
            .take(len)
            .ok_or(CopyError::NoAddresses { bytes: len })?;
        if let Err(error) = self.node.va_map(handle, va, offset, len, access) {
            self.space.give_back(va);
            return Err(error.into());
        }
        Ok(va)
    }

    /// Gives up the ring. Closing a handle removes its mappings.
    fn unstage(&mut self) -> Result<(), CopyError> {
        let Some(ring) = self.ring.take() else {
            return Ok(());
        };
        for va in ring.slots {
            self.space.give_back(va);
        }
        self.space.give_back(ring.commands_va);
        self.node.gem_close(ring.staging)?;
        self.node.gem_close(ring.commands)?;
        Ok(())
    }

    /// Takes back one use of an imported handle.
    fn release(&mut self, handle: GemHandle) -> Result<(), CopyError> {
        match self.handles.get_mut(&handle) {
            Some(uses) if *uses > 1 => *uses -= 1,
            _ => {
                self.handles.remove(&handle);
                self.node.gem_close(handle)?;
            }
        }
        Ok(())
    }
}

impl CopyEngine for SdmaEngine {
    fn stage(&mut self, layout: RingLayout) -> Result<Vec<Slot>, CopyError> {
        self.unstage()?;
        let access = VaAccess::READ | VaAccess::WRITE;
        // What fails half-way stays with the file and goes when that is closed.
        let staging = self.node.gem_create_gtt(layout.bytes() as u64)?;
        let memory = self.node.gem_map(staging, layout.bytes())?;
        let slot_bytes = layout.slot_bytes as u64;
        let slots = (0..layout.slots as u64)
            .map(|slot| self.map(staging, slot * slot_bytes, slot_bytes, access))
            .collect::<Result<Vec<_>, _>>()?;

        let stride = (most_dwords(self.family, MAX_PARTS, slot_bytes) * 4)
            .next_multiple_of(COMMAND_ALIGNMENT);
        let bytes = stride * layout.slots;
        let commands = self.node.gem_create_gtt(bytes as u64)?;
        let commands_memory = self.node.gem_map(commands, bytes)?;
        let access = VaAccess::READ | VaAccess::EXECUTE;
        let commands_va = self.map(commands, 0, bytes as u64, access)?;
        self.ring = Some(Ring {
            staging,
            slots,
            commands,
            commands_va,
            commands_memory,
            stride,
        });
        Ok(Staging::new(memory, layout)?.into_slots())
    }

    fn attach(
        &mut self,
        dmabuf: BorrowedFd<'_>,
        offset: u64,
        len: u64,
    ) -> Result<Attached, CopyError> {
        let handle = self.node.prime_fd_to_handle(dmabuf)?;
        *self.handles.entry(handle).or_default() += 1;
        let access = VaAccess::READ | VaAccess::WRITE;
        match self.map(handle, offset, len, access) {
            Ok(va) => {
                let id = self.next_bo;
                self.next_bo += 1;
                self.bos.insert(id, Bo { handle, va, len });
                Ok(Attached(id))
            }
            Err(error) => {
                // The first error is the one that counts.
                let _ = self.release(handle);
                Err(error)
            }
        }
    }

    fn submit(&mut self, slot: Slot, job: CopyJob<'_>) -> Result<Ticket, CopyError> {
        let refuse = |what| CopyError::BadJob { what };
        let ring = self.ring.as_ref().ok_or(refuse("there is no ring"))?;
        let slot_va = *ring
            .slots
            .get(slot.index())
            .ok_or(refuse("the slot is of another ring"))?;
        let mut commands = Vec::with_capacity(ring.stride / 4);
        let mut touched = Vec::with_capacity(job.parts.len() + 2);
        for part in job.parts {
            let bo = self
                .bos
                .get(&part.bo.0)
                .ok_or(refuse("the object is not attached"))?;
            let len = part.len as u64;
            if part
                .slot_offset
                .checked_add(part.len)
                .is_none_or(|end| end > slot.len())
            {
                return Err(refuse("the slot is too small"));
            }
            if part.offset.checked_add(len).is_none_or(|end| end > bo.len) {
                return Err(refuse("the object is too small"));
            }
            let in_slot = slot_va + part.slot_offset as u64;
            let in_bo = bo.va + part.offset;
            let (from, to) = match job.direction {
                Direction::ToGpu => (in_slot, in_bo),
                Direction::FromGpu => (in_bo, in_slot),
            };
            add_copy(&mut commands, self.family, from, to, len);
            touched.push(bo.handle);
        }
        if commands.is_empty() {
            return Err(refuse("there is nothing to copy"));
        }
        pad(&mut commands);
        // An object may come more than once; the kernel wants each handle once.
        touched.extend([ring.staging, ring.commands]);
        touched.sort_unstable();
        touched.dedup();
        let bytes = commands.len() * 4;
        let place = ring.stride * slot.index();
        if bytes > ring.stride || place + bytes > ring.commands_memory.len() {
            return Err(refuse("the commands are too long"));
        }
        let target = ring.commands_memory.as_ptr().as_ptr().wrapping_add(place);
        let source = commands.as_ptr().cast::<u8>();
        // SAFETY: the place lies in the mapping (checked above) and belongs to this slot, which the caller
        // owns, so that no job that the GPU still runs uses it; it cannot overlap with our vector.
        unsafe { std::ptr::copy_nonoverlapping(source, target, bytes) };
        let va = ring.commands_va + place as u64;
        let bytes = u32::try_from(bytes).map_err(|_| refuse("the commands are too long"))?;
        let job = self.node.submit_dma(self.context, va, bytes, &touched)?;
        Ok(Ticket { slot, job })
    }

    fn wait(&mut self, ticket: Ticket, limit: Duration) -> Result<Waited, CopyError> {
        Ok(match self.node.wait_dma(self.context, ticket.job, limit)? {
            JobState::Done => Waited::Done(ticket.slot),
            JobState::Busy => Waited::Busy(ticket),
        })
    }

    fn detach(&mut self, bo: Attached) -> Result<(), CopyError> {
        let Some(bo) = self.bos.remove(&bo.0) else {
            return Err(CopyError::BadJob {
                what: "the object is not attached",
            });
        };
        let unmapped = self
            .node
            .va_unmap(bo.handle, bo.va, bo.len.next_multiple_of(PAGE));
        if unmapped.is_ok() {
            self.space.give_back(bo.va);
        }
        self.release(bo.handle)?;
        Ok(unmapped?)
    }
}
