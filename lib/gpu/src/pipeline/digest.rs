//! The integrity index: BLAKE3 of each block of a buffer object.

/// Bytes of a block. Blocks are aligned within each object; the last one may be shorter.
pub const BLOCK: u64 = 4 << 20;

/// BLAKE3 of a whole block of zeros: most zero blocks are whole, and this saves hashing them.
const ZERO_BLOCK: [u8; 32] = [
    0x4, 0xe5, 0x2c, 0xd2, 0xda, 0x6a, 0xe, 0x1f, 0x33, 0x8b, 0x0, 0x78, 0x36, 0x91, 0x30, 0xd9,
    0x65, 0x85, 0xc1, 0xde, 0x65, 0x5, 0x7d, 0xa5, 0xdd, 0x12, 0x83, 0xb1, 0x2f, 0xb8, 0x53, 0xe1,
];

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDigest {
    /// BLAKE3 of its bytes.
    pub hash: [u8; 32],
    /// Is every byte zero?
    pub zero: bool,
}

impl BlockDigest {
    /// The digest of `bytes` bytes that are all zero.
    #[must_use]
    pub fn of_zeros(bytes: u64) -> Self {
        BlockHasher {
            hasher: None,
            zeros: bytes,
        }
        .finish()
    }
}

/// The digests of one transfer: for each object, in the order of the list of objects, those of its blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockIndex {
    /// First by object, then by block.
    pub bos: Vec<Vec<BlockDigest>>,
}

/// Is every byte zero?
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    bytes
        .chunks(ZEROS.len())
        .all(|chunk| chunk == &ZEROS[..chunk.len()])
}

/// Digests one block that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct BlockHasher {
    /// Made when the first byte that is not zero arrives.
    hasher: Option<blake3::Hasher>,
    /// Bytes so far, while all of them are zero.
    zeros: u64,
}

impl BlockHasher {
    /// Adds a piece; `zero` says that it is [`is_zero`].
    pub(super) fn update(&mut self, bytes: &[u8], zero: bool) {
        match &mut self.hasher {
            Some(hasher) => {
                hasher.update(bytes);
            }
            None if zero => self.zeros += bytes.len() as u64,
            None => {
                let mut hasher = hash_zeros(self.zeros);
                hasher.update(bytes);
                self.hasher = Some(hasher);
            }
        }
    }

    /// The digest of all pieces.
    pub(super) fn finish(self) -> BlockDigest {
        let hash = match &self.hasher {
            Some(hasher) => *hasher.finalize().as_bytes(),
            None if self.zeros == BLOCK => ZERO_BLOCK,
            None => *hash_zeros(self.zeros).finalize().as_bytes(),
        };
        BlockDigest {
            hash,
            zero: self.hasher.is_none(),
        }
    }
}

fn hash_zeros(mut bytes: u64) -> blake3::Hasher {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut hasher = blake3::Hasher::new();
    while bytes > 0 {
        let now = bytes.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..usize::try_from(now).unwrap_or(ZEROS.len())]);
        bytes -= now;
    }
    hasher
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_is_right() {
        assert_eq!(*hash_zeros(BLOCK).finalize().as_bytes(), ZERO_BLOCK);
    }

    #[test]
    fn pieces_make_no_difference() {
        let mut block = vec![0_u8; 20_000];
        block[10_000] = 7;
        for cut in [0, 1, 9_999, 10_000, 10_001, 20_000] {
            let mut hasher = BlockHasher::default();
            for piece in [&block[..cut], &block[cut..]] {
                hasher.update(piece, is_zero(piece));
            }
            let digest = hasher.finish();
            assert_eq!(digest.hash, *blake3::hash(&block).as_bytes());
            assert!(!digest.zero);
        }
    }

    #[test]
    fn zeros() {
        assert!(is_zero(&[]));
        assert!(is_zero(&[0; 5000]));
        assert!(!is_zero(&[&[0; 5000][..], &[1]].concat()));
        let mut hasher = BlockHasher::default();
        hasher.update(&[0; 5000], true);
        let digest = hasher.finish();
        assert_eq!(digest.hash, *blake3::hash(&[0; 5000]).as_bytes());
        assert!(digest.zero);
    }
}
