//! The staging ring: memory that the CPU fills or empties and the GPU copies from or to.

use std::sync::Arc;

use rocferry_kfd::Mapping;

use super::{CopyError, RingLayout};

/// Memory for a ring, not yet divided.
#[derive(Debug)]
pub struct Staging {
    memory: Mapping,
    layout: RingLayout,
}

impl Staging {
    /// Takes over a mapping of at least the layout's size, in which nobody else reads or writes but a
    /// copy engine that holds a slot of it.
    ///
    /// # Errors
    /// [`CopyError::BadRing`] when the mapping is too small.
    pub fn new(memory: Mapping, layout: RingLayout) -> Result<Self, CopyError> {
        if memory.len() < layout.bytes() {
            return Err(CopyError::BadRing {
                wanted: layout.bytes(),
                got: memory.len(),
            });
        }
        Ok(Self { memory, layout })
    }

    /// Divides the memory. It is unmapped when the last slot is gone.
    #[must_use]
    pub fn into_slots(self) -> Vec<Slot> {
        let memory = Arc::new(self.memory);
        let len = self.layout.slot_bytes;
        (0..self.layout.slots)
            .map(|index| Slot {
                memory: Arc::clone(&memory),
                index,
                len,
            })
            .collect()
    }
}

/// One part of the ring. Whoever owns it, and nobody else, may touch its bytes: a copy engine owns it from
/// submission until the copy is done.
#[derive(Debug)]
pub struct Slot {
    memory: Arc<Mapping>,
    index: usize,
    len: usize,
}

impl Slot {
    /// Its number in the ring; it starts at this many times [`Slot::len`] bytes.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Has it no bytes? Never true.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it holds.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let start = self
            .memory
            .as_ptr()
            .as_ptr()
            .wrapping_add(self.index * self.len);
        // SAFETY: `Staging` checked that all slots lie in the mapping, which `self` keeps alive; slots do
        // not overlap and each exists once, so while this one is borrowed nobody writes to it.
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }

    /// What it holds, to be changed.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self
            .memory
            .as_ptr()
            .as_ptr()
            .wrapping_add(self.index * self.len);
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(start, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap_and_keep_the_memory() {
        let layout = RingLayout {
            slot_bytes: 4096,
            slots: 3,
        };
        let memory = Mapping::anonymous(layout.bytes()).unwrap();
        let mut slots = Staging::new(memory, layout).unwrap().into_slots();
        for (value, slot) in (1..).zip(&mut slots) {
            slot.bytes_mut().fill(value);
        }
        let last = slots.pop().unwrap();
        assert!(slots[0].bytes().iter().all(|byte| *byte == 1));
        drop(slots);
        assert!(last.bytes().iter().all(|byte| *byte == 3));
    }

    #[test]
    fn a_short_mapping_is_refused() {
        let layout = RingLayout {
            slot_bytes: 4096,
            slots: 3,
        };
        let memory = Mapping::anonymous(8192).unwrap();
        assert!(matches!(
            Staging::new(memory, layout),
            Err(CopyError::BadRing {
                wanted: 12288,
                got: 8192
            })
        ));
    }
}
