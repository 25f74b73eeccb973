//! How much memory the staging rings take.

use super::digest::BLOCK;

/// Granularity of every size here: the page size of x86-64.
pub(super) const PAGE: u64 = 4096;
/// More slots than this bring nothing.
const MAX_SLOTS: u64 = 1024;
/// With less than this many slots one reader and the copy engine would wait for each other.
const USEFUL_SLOTS: u64 = 2;

/// Limits of the staging memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of one GPU's ring.
    pub per_gpu: u64,
    /// Bytes of all rings together.
    pub all_gpus: u64,
}

impl Default for Budget {
    /// 2 x 64 MiB for a GPU, 1 GiB for all.
    fn default() -> Self {
        Self {
            per_gpu: 2 * (64 << 20),
            all_gpus: 1 << 30,
        }
    }
}

impl Budget {
    /// The budget with the value of `KFD_MAX_BUFFER_SIZE` for each GPU, if there is one
    /// ([`rocferry_topology::parse_max_buffer_size`]). The limit over all GPUs stays.
    #[must_use]
    pub fn with_max_buffer_size(self, bytes: Option<u64>) -> Self {
        Self {
            per_gpu: bytes.unwrap_or(self.per_gpu),
            ..self
        }
    }

    /// Bytes of each ring when `gpus` of them are needed: whole pages, one at least.
    #[must_use]
    pub fn ring_bytes(&self, gpus: usize) -> u64 {
        let share = self.all_gpus / (gpus.max(1) as u64);
        (self.per_gpu.min(share) & !(PAGE - 1)).max(PAGE)
    }
}

/// How a ring is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLayout {
    /// Bytes of a slot: whole pages, at most [`BLOCK`].
    pub slot_bytes: usize,
    /// Number of slots, at least 1.
    pub slots: usize,
}

impl RingLayout {
    /// Divides `ring_bytes` for a transfer of `units` pieces of which the largest has `largest` bytes:
    /// slots of a whole block where two of them fit, never larger than a piece or more than there are
    /// pieces to put in.
    #[must_use]
    pub fn new(ring_bytes: u64, units: usize, largest: u64) -> Self {
        let ring_pages = (ring_bytes / PAGE).max(1);
        let largest_pages = largest.min(BLOCK).div_ceil(PAGE).max(1);
        let slot_pages = (ring_pages / USEFUL_SLOTS).clamp(1, largest_pages);
        let chunks = (units as u64).saturating_mul(largest_pages.div_ceil(slot_pages));
        let slots = (ring_pages / slot_pages).min(MAX_SLOTS).min(chunks).max(1);
        // At most 1024 pages each and 1024 slots.
        let to_usize = |value: u64| usize::try_from(value).unwrap_or(1);
        Self {
            slot_bytes: to_usize(slot_pages * PAGE),
            slots: to_usize(slots),
        }
    }

    /// Bytes of the ring.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slot_bytes * self.slots
    }

    /// How many copies to have under way at once, leaving a slot for the other stage.
    pub(super) fn depth(self) -> usize {
        const ENOUGH: usize = 4;
        ENOUGH.min(self.slots - 1).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn defaults() {
        let budget = Budget::default();
        assert_eq!(budget.ring_bytes(1), 128 * MIB);
        assert_eq!(budget.ring_bytes(8), 128 * MIB);
        assert_eq!(budget.ring_bytes(64), 16 * MIB);
        assert_eq!(budget.ring_bytes(0), 128 * MIB);
        let layout = RingLayout::new(128 * MIB, 1000, BLOCK);
        assert_eq!(
            layout,
            RingLayout {
                slot_bytes: 4 << 20,
                slots: 32
            }
        );
    }

    #[test]
    fn the_variable_sets_the_ring_within_the_cap() {
        let budget = Budget::default();
        assert_eq!(
            budget.with_max_buffer_size(Some(16 * MIB)).ring_bytes(2),
            16 * MIB
        );
        assert_eq!(
            budget.with_max_buffer_size(Some(4 << 30)).ring_bytes(2),
            512 * MIB
        );
        assert_eq!(budget.with_max_buffer_size(Some(5000)).ring_bytes(1), 4096);
        assert_eq!(budget.with_max_buffer_size(Some(1)).ring_bytes(1), 4096);
        assert_eq!(budget.with_max_buffer_size(None), budget);
    }

    #[test]
    fn rings_smaller_than_a_block_have_smaller_slots() {
        let slots = |ring, units, largest| {
            let layout = RingLayout::new(ring, units, largest);
            assert!(layout.bytes() as u64 <= ring.max(PAGE));
            (layout.slot_bytes as u64, layout.slots)
        };
        assert_eq!(slots(4 * MIB, 100, BLOCK), (2 * MIB, 2));
        assert_eq!(slots(PAGE, 100, BLOCK), (PAGE, 1));
        assert_eq!(slots(3 * PAGE, 100, BLOCK), (PAGE, 3));
        assert_eq!(slots(128 * MIB, 10_000, PAGE), (PAGE, 1024));
        assert_eq!(slots(128 * MIB, 1, PAGE), (PAGE, 1));
        assert_eq!(slots(128 * MIB, 0, 0), (PAGE, 1));
        assert_eq!(slots(2 * MIB, 1, BLOCK), (MIB, 2));
    }
}
