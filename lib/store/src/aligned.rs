//! Memory that disks can read and write themselves.

/// Addresses, positions and lengths of writes past the page cache are multiples of this many bytes: no disk
/// has larger sectors.
pub(crate) const ALIGNMENT: usize = 4096;

/// Bytes whose first one lies at a multiple of [`ALIGNMENT`]. Kept and used again.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    bytes: Vec<u8>,
}

impl Aligned {
    /// Room for `length` bytes, with whatever was there before.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        let wanted = length.saturating_add(ALIGNMENT);
        if self.bytes.len() < wanted {
            self.bytes = vec![0; wanted];
        }
        let start = self.bytes.as_ptr().align_offset(ALIGNMENT);
        &mut self.bytes[start..start + length]
    }

    /// A copy of `content` in it.
    pub(crate) fn copy(&mut self, content: &[u8]) -> &[u8] {
        let room = self.room(content.len());
        room.copy_from_slice(content);
        room
    }
}

/// Whether a disk could write this at `position` itself.
pub(crate) fn fits(length: usize, position: u64) -> bool {
    length.is_multiple_of(ALIGNMENT) && position.is_multiple_of(ALIGNMENT as u64)
}

/// Whether it lies at a multiple of [`ALIGNMENT`].
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(ALIGNMENT) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_is_aligned() {
        let mut aligned = Aligned::default();
        for length in [0, 1, 4095, 4096, 100_000, 3] {
            let content: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let copy = aligned.copy(&content);
            assert_eq!(copy, content);
            assert!(is_aligned(copy));
        }
    }

    #[test]
    fn only_whole_sectors_fit() {
        assert!(fits(8192, 4096));
        assert!(!fits(8192, 512));
        assert!(!fits(8191, 4096));
    }
}
