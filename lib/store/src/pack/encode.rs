//! Blocks on their way into a pack.

use std::fmt;

use bytes::Bytes;
use rocferry_image::manifest::{BLOCK_SIZE, BlockId, DataKeyId, Encoding};
use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

use super::{PackEntry, PackError};
use crate::seal::{Keys, Piece};

/// Compression must save one byte in this many, or a block is stored as it is: reading is then faster.
const GAIN: usize = 20;
/// Blocks that are shorter are compressed without asking a sample.
const SMALL: usize = 128 << 10;
/// Parts of a block that are tried first, and their length: 1.6 % of a whole block.
const SAMPLES: usize = 16;
const SAMPLE: usize = 4 << 10;

/// How hard to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Off,
    /// zstd with this level, from 1 (fast) to 19.
    Zstd(i32),
}

impl Default for Compression {
    fn default() -> Self {
        Self::Zstd(1)
    }
}

/// Whether all bytes are zero.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    // Large enough to be done with wide registers, small enough to stop soon.
    const STEP: usize = 256;
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let zero = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all | byte) == 0;
    steps.iter().all(|step| zero(step)) && zero(rest)
}

/// A block as it will stand in a pack.
#[derive(Clone, Debug)]
pub struct EncodedBlock {
    id: BlockId,
    plain: u32,
    encoding: Encoding,
    data_key: Option<DataKeyId>,
    bytes: Bytes,
}

impl EncodedBlock {
    /// Its name.
    #[must_use]
    pub const fn id(&self) -> BlockId {
        self.id
    }

    /// Its size before compression.
    #[must_use]
    pub const fn plain(&self) -> u32 {
        self.plain
    }

    /// Its bytes in a pack.
    #[must_use]
    pub fn stored(&self) -> u32 {
        // A block and what sealing adds: little more than 4 MiB.
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    /// How it is encoded.
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    pub(super) const fn data_key(&self) -> Option<DataKeyId> {
        self.data_key
    }

    pub(super) fn entry(&self, offset: u64) -> PackEntry {
        PackEntry {
            id: self.id,
            offset,
            stored: self.stored(),
            plain: self.plain,
            encoding: self.encoding,
        }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Compresses and seals blocks. Keeps its buffers: one for each thread that encodes.
pub struct BlockEncoder {
    zstd: Option<Compressor<'static>>,
    buffer: Vec<u8>,
    sample: Vec<u8>,
}

impl BlockEncoder {
    /// An encoder that compresses like this.
    ///
    /// # Errors
    /// [`PackError::Compression`].
    pub fn new(compression: Compression) -> Result<Self, PackError> {
        let zstd = match compression {
            Compression::Off => None,
            Compression::Zstd(level) => {
                Some(Compressor::new(level.clamp(1, 19)).map_err(PackError::Compression)?)
            }
        };
        Ok(Self {
            zstd,
            buffer: Vec::new(),
            sample: Vec::new(),
        })
    }

    /// The block with this content, whose name is [`Keys::block_id`] of it.
    ///
    /// # Errors
    /// [`PackError::BlockSize`], [`PackError::Seal`].
    pub fn encode(
        &mut self,
        keys: &Keys,
        id: BlockId,
        plain: &Bytes,
    ) -> Result<EncodedBlock, PackError> {
        let size = u32::try_from(plain.len()).ok();
        let size = size.filter(|size| (1..=BLOCK_SIZE).contains(size));
        let size = size.ok_or(PackError::BlockSize {
            bytes: plain.len(),
            limit: BLOCK_SIZE,
        })?;
        let block = |encoding, bytes| EncodedBlock {
            id,
            plain: size,
            encoding,
            data_key: keys.id(),
            bytes,
        };
        let seal = |content: &[u8]| {
            let sealed = keys.seal(Piece::Block(id), content);
            sealed.map_err(|source| PackError::Seal { block: id, source })
        };
        if let Some(compressed) = self.compress(plain) {
            let stored = if keys.is_sealed() {
                seal(compressed)?
            } else {
                let check = frame_check(keys, id, compressed);
                [compressed, &check].concat()
            };
            return Ok(block(Encoding::Zstd, stored.into()));
        }
        let stored = if keys.is_sealed() {
            seal(plain)?.into()
        } else {
            plain.clone()
        };
        Ok(block(Encoding::Raw, stored))
    }

    /// The content as a zstd frame, if that pays.
    fn compress(&mut self, plain: &[u8]) -> Option<&[u8]> {
        let zstd = self.zstd.as_mut()?;
        if plain.len() > SMALL {
            self.sample.clear();
            self.sample.extend(samples(plain).flatten());
            let length = compress(zstd, &mut self.buffer, &self.sample)?;
            if !pays(self.sample.len(), length) {
                return None;
            }
        }
        let length = compress(zstd, &mut self.buffer, plain)?;
        pays(plain.len(), length).then_some(&self.buffer[..length])
    }
}

/// Spread evenly, the first one at the start and the last one at the end.
fn samples(plain: &[u8]) -> impl Iterator<Item = &[u8]> {
    let step = (plain.len() - SAMPLE) / (SAMPLES - 1);
    (0..SAMPLES).map(move |index| &plain[index * step..][..SAMPLE])
}

/// Length of the frame that is now in the buffer.
fn compress(zstd: &mut Compressor<'_>, buffer: &mut Vec<u8>, plain: &[u8]) -> Option<usize> {
    buffer.clear();
    buffer.reserve(compress_bound(plain.len()));
    // With as much room as that it fails only without memory; the block is then stored as it is.
    zstd.compress_to_buffer(plain, buffer).ok()
}

const fn pays(plain: usize, compressed: usize) -> bool {
    compressed <= plain - plain.div_ceil(GAIN)
}

/// The end of a compressed block that is not sealed. Some bits of a zstd frame mean nothing: the content
/// alone would not tell when they change.
pub(super) fn frame_check(keys: &Keys, id: BlockId, frame: &[u8]) -> [u8; 16] {
    let mut check = [0; 16];
    let hash = keys.check(&[b"block", &id.0, frame]);
    check.copy_from_slice(&hash.as_bytes()[..16]);
    check
}

impl fmt::Debug for BlockEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockEncoder")
            .field("compresses", &self.zstd.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seal::Salt;

    proptest! {
        #[test]
        fn one_bit_is_not_zero(length in 0..5000usize, place in any::<prop::sample::Index>()) {
            let mut bytes = vec![0; length];
            prop_assert!(is_zero(&bytes));
            if length > 0 {
                bytes[place.index(length)] = 0x10;
                prop_assert!(!is_zero(&bytes));
            }
        }

        #[test]
        fn samples_are_within(length in SMALL + 1..=BLOCK_SIZE as usize) {
            let plain = vec![0; length];
            let taken: Vec<_> = samples(&plain).collect();
            prop_assert_eq!(taken.len(), SAMPLES);
            prop_assert!(taken.iter().all(|sample| sample.len() == SAMPLE));
            prop_assert_eq!(taken[0].as_ptr(), plain.as_ptr());
            let last = length - taken[SAMPLES - 1].len();
            prop_assert!(last.abs_diff(taken[SAMPLES - 1].as_ptr() as usize - plain.as_ptr() as usize) < SAMPLES);
        }
    }

    fn encoded(plain: &Bytes, compression: Compression) -> EncodedBlock {
        let keys = Keys::unsealed(&Salt([1; 32]));
        let mut encoder = BlockEncoder::new(compression).expect("encoder");
        let block = encoder.encode(&keys, keys.block_id(plain), plain);
        block.expect("encodes")
    }

    #[test]
    fn what_does_not_compress_stays_as_it_is() {
        let mut random = fastrand::Rng::with_seed(1);
        let noise: Bytes = (0..BLOCK_SIZE).map(|_| random.u8(..)).collect();
        let block = encoded(&noise, Compression::default());
        assert_eq!(
            (block.encoding(), block.stored()),
            (Encoding::Raw, BLOCK_SIZE)
        );
        // Not even copied.
        assert_eq!(block.into_bytes().as_ptr(), noise.as_ptr());
        // Floating point numbers of similar size: a byte in four says little.
        let floats: Bytes = noise
            .chunks(4)
            .flat_map(|bytes| [bytes[0], bytes[1], bytes[2], 0x3f])
            .collect();
        assert_eq!(
            encoded(&floats, Compression::default()).encoding(),
            Encoding::Zstd
        );
        assert_eq!(encoded(&floats, Compression::Off).encoding(), Encoding::Raw);
        // What saves less than one byte in twenty is not worth it.
        let mut little = noise.to_vec();
        little[..150_000].fill(0);
        assert_eq!(
            encoded(&little.into(), Compression::default()).encoding(),
            Encoding::Raw
        );
        for length in [1, 2, 20, 100] {
            let block = encoded(&noise.slice(..length), Compression::default());
            assert_eq!(block.encoding(), Encoding::Raw);
        }
        let same = Bytes::from(vec![7; BLOCK_SIZE as usize]);
        let block = encoded(&same, Compression::default());
        assert_eq!(block.encoding(), Encoding::Zstd);
        assert!(block.stored() < 1000);
    }

    #[test]
    fn blocks_have_sizes_that_blocks_have() {
        let keys = Keys::unsealed(&Salt([1; 32]));
        let mut encoder = BlockEncoder::new(Compression::Off).expect("encoder");
        for length in [0, BLOCK_SIZE as usize + 1] {
            let plain = Bytes::from(vec![1; length]);
            let error = encoder
                .encode(&keys, BlockId([0; 32]), &plain)
                .expect_err("size");
            assert!(matches!(error, PackError::BlockSize { bytes, .. } if bytes == length));
        }
    }
}
