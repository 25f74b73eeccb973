//! Blocks on their way out of a pack.

use std::fmt;

use rocferry_image::manifest::{BLOCK_SIZE, BlockId, Encoding};
use zstd::bulk::Decompressor;

use super::PackError;
use super::encode::frame_check;
use crate::aligned::Aligned;
use crate::seal::{Keys, Piece};

/// Opens, decompresses and verifies blocks. Keeps its buffers: one for each thread that decodes.
pub struct BlockDecoder {
    zstd: Decompressor<'static>,
    opened: Vec<u8>,
    plain: Aligned,
}

impl BlockDecoder {
    /// A decoder.
    ///
    /// # Errors
    /// [`PackError::Compression`].
    pub fn new() -> Result<Self, PackError> {
        Ok(Self {
            zstd: Decompressor::new().map_err(PackError::Compression)?,
            opened: Vec::new(),
            plain: Aligned::default(),
        })
    }

    /// The content of block `id` of `size` bytes from what is `stored` of it. What is returned has been
    /// verified: it is the content of that name, whoever kept it.
    ///
    /// # Errors
    /// [`PackError::Block`].
    pub fn decode<'a>(
        &'a mut self,
        keys: &Keys,
        id: BlockId,
        size: u32,
        encoding: Encoding,
        stored: &'a [u8],
    ) -> Result<&'a [u8], PackError> {
        let damaged = |reason| PackError::Block { block: id, reason };
        if size == 0 || size > BLOCK_SIZE {
            return Err(damaged("it has an impossible size"));
        }
        let opened = keys.open(Piece::Block(id), stored, &mut self.opened);
        let mut opened = opened.map_err(|_| damaged("its key does not open it"))?;
        if encoding == Encoding::Zstd && !keys.is_sealed() {
            let split = opened.split_last_chunk();
            let (frame, check) = split.ok_or_else(|| damaged("it ends early"))?;
            if frame_check(keys, id, frame) != *check {
                return Err(damaged("its check value is wrong"));
            }
            opened = frame;
        }
        let plain = match encoding {
            Encoding::Raw => opened,
            Encoding::Zstd => {
                // Never gets more room than the block has.
                let room = self.plain.room(size as usize);
                let length = self.zstd.decompress_to_buffer(opened, room);
                let length = length.map_err(|_| damaged("it cannot be decompressed"))?;
                room.get(..length).unwrap_or_default()
            }
        };
        if plain.len() != size as usize {
            return Err(damaged("it has another size"));
        }
        if keys.block_id(plain) != id {
            return Err(damaged("its content has another name"));
        }
        Ok(plain)
    }
}

impl fmt::Debug for BlockDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockDecoder").finish_non_exhaustive()
    }
}
