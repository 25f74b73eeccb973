//! Memory that CRIU and all tasks of one restore share.
//!
//! Made by `init` in CRIU before it forks, so every task inherits the mapping. A task notes there how far its
//! GPU state has come; CRIU reads it before it resumes the task's queues. Only atomics: tasks run at once,
//! and one may be killed at any point.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, ptr, slice};

use rocferry_gpu::{TaskBoard, TaskSlot, TaskStage};
use rocferry_image::TaskPid;

/// GPU processes in one restore. A slot is 8 bytes, so the whole is a few pages.
const SLOTS: usize = 4096;

/// One task. `pid` is 0 while the slot is free.
#[repr(C)]
#[derive(Debug)]
struct Slot {
    pid: AtomicU32,
    stage: AtomicU32,
}

/// The shared table; never unmapped before the process ends, so that a slice of it is valid for good.
#[derive(Debug)]
pub(crate) struct SharedBoard {
    slots: &'static [Slot],
}

impl SharedBoard {
    /// Maps the table, empty.
    ///
    /// # Errors
    /// The mapping is refused.
    pub(crate) fn new() -> io::Result<Self> {
        let bytes = SLOTS * size_of::<Slot>();
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `bytes` zeroed bytes, page-aligned, are SLOTS slots with pid 0, and stay mapped for good.
        let slots = unsafe { slice::from_raw_parts(base.cast::<Slot>(), SLOTS) };
        Ok(Self { slots })
    }
}

impl TaskBoard for SharedBoard {
    fn claim(&self, pid: TaskPid) -> Option<TaskSlot> {
        let free = self.slots.iter().position(|slot| {
            slot.pid
                .compare_exchange(0, pid.0, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        })?;
        Some(TaskSlot(free))
    }

    fn set(&self, slot: TaskSlot, stage: TaskStage) {
        if let Some(entry) = self.slots.get(slot.0) {
            entry.stage.store(stage as u32, Ordering::Release);
        }
    }

    fn tasks(&self) -> Vec<(TaskSlot, TaskPid, TaskStage)> {
        let used = self.slots.iter().enumerate().map_while(|(index, slot)| {
            let pid = slot.pid.load(Ordering::Acquire);
            (pid != 0).then(|| {
                (
                    TaskSlot(index),
                    TaskPid(pid),
                    TaskStage::from_raw(slot.stage.load(Ordering::Acquire)),
                )
            })
        });
        used.collect()
    }

    fn capacity(&self) -> usize {
        SLOTS
    }
}
