//! Header and footer of a pack, and the entries of its trailer.

use bytes::{Buf, BufMut};
use rocferry_image::manifest::{
    BLOCK_SIZE, BlockId, DataKeyId, Encoding, MAX_PACK, PACK_HEADER, PackId,
};

use super::{PackEntry, PackError};
use crate::envelope::data_key_from;
use crate::seal::SEALED;

pub(super) const MAGIC: &[u8; 8] = b"RFPACK01";
pub(super) const END: &[u8; 8] = b"RFPACKEN";
pub(super) const INDEX_MAGIC: &[u8; 8] = b"RFINDEX1";
const VERSION: u32 = 1;

/// Bytes of a pack's header.
pub const HEADER: usize = 40;
const _: () = assert!(HEADER as u64 == PACK_HEADER);
/// Bytes of a pack's footer.
pub const FOOTER: usize = CHECK + 8 + 8;
/// Bytes of an index object before the header.
pub const INDEX_START: usize = 8 + 8;
pub(super) const CHECK: usize = 32;
/// Bytes of an entry of the trailer.
pub(super) const ENTRY: usize = 32 + 4 + 4 + 1;

/// Most blocks of a pack.
pub const MAX_BLOCKS: usize = 16 << 10;

/// Most bytes of a trailer, sealed.
pub(super) const MAX_TRAILER: usize = MAX_BLOCKS * ENTRY + SEALED;

/// Most bytes of an index object.
pub const MAX_INDEX_OBJECT: u64 = (INDEX_START + HEADER + MAX_TRAILER + FOOTER) as u64;

/// What a pack begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackHeader {
    /// The pack.
    pub pack: PackId,
    /// The data key that seals it.
    pub data_key: Option<DataKeyId>,
}

impl PackHeader {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let mut rest = header.as_mut_slice();
        rest.put_slice(MAGIC);
        rest.put_u32_le(VERSION);
        rest.put_u32_le(BLOCK_SIZE);
        rest.put_slice(&self.pack.0);
        rest.put_slice(&self.data_key.map_or([0; 8], |id| id.0));
        header
    }

    /// Reads the header of `pack`. That the data key is right shows only in what it opens.
    ///
    /// # Errors
    /// [`PackError::Damaged`], [`PackError::Version`].
    pub fn decode(pack: PackId, mut header: &[u8]) -> Result<Self, PackError> {
        let damaged = |reason| PackError::Damaged { pack, reason };
        if header.len() < HEADER {
            return Err(damaged("it ends within its header"));
        }
        if !header.starts_with(MAGIC) {
            return Err(damaged("it does not begin like a pack"));
        }
        header.advance(MAGIC.len());
        let (found, supported) = (header.get_u32_le(), VERSION);
        if found != supported {
            return Err(PackError::Version {
                pack,
                found,
                supported,
            });
        }
        if header.get_u32_le() != BLOCK_SIZE {
            return Err(damaged("its blocks have another size"));
        }
        let mut id = [0; 16];
        header.copy_to_slice(&mut id);
        if id != pack.0 {
            return Err(damaged("it is another pack"));
        }
        let mut data_key = [0; 8];
        header.copy_to_slice(&mut data_key);
        let data_key = data_key_from(data_key);
        Ok(Self { pack, data_key })
    }
}

pub(super) fn put_entry(trailer: &mut Vec<u8>, entry: &PackEntry) {
    trailer.put_slice(&entry.id.0);
    trailer.put_u32_le(entry.stored);
    trailer.put_u32_le(entry.plain);
    trailer.put_u8(match entry.encoding {
        Encoding::Raw => 0,
        Encoding::Zstd => 1,
    });
}

/// The entry, if it makes sense as the one that begins at `offset`.
pub(super) fn entry(
    mut bytes: &[u8],
    offset: u64,
    sealed: bool,
) -> Result<PackEntry, &'static str> {
    let mut id = [0; 32];
    bytes.copy_to_slice(&mut id);
    let (stored, plain) = (bytes.get_u32_le(), bytes.get_u32_le());
    let encoding = match bytes.get_u8() {
        0 => Encoding::Raw,
        1 => Encoding::Zstd,
        _ => return Err("a block has an unknown encoding"),
    };
    let entry = PackEntry {
        id: BlockId(id),
        offset,
        stored,
        plain,
        encoding,
    };
    entry.check(sealed)?;
    Ok(entry)
}

impl PackEntry {
    /// Whether there can be such a block.
    pub(super) fn check(&self, sealed: bool) -> Result<(), &'static str> {
        if self.plain == 0 || self.plain > BLOCK_SIZE {
            return Err("a block has an impossible size");
        }
        let overhead = self.encoding.overhead(sealed);
        let fits = match self.encoding {
            Encoding::Raw => self.stored == self.plain + overhead,
            Encoding::Zstd => (overhead + 1..overhead + self.plain).contains(&self.stored),
        };
        if !fits {
            return Err("the length of a block does not fit its size");
        }
        if self.end() > MAX_PACK {
            return Err("it is larger than any pack");
        }
        Ok(())
    }

    /// The byte after it.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.stored.into())
    }
}
