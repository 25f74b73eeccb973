//! The list of a pack's blocks.

use std::collections::HashSet;
use std::ops::Range;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rocferry_image::manifest::{BlockId, DataKeyId, Encoding, MAX_PACK, PACK_HEADER, PackId};

use super::PackError;
use super::layout::{
    CHECK, END, ENTRY, FOOTER, HEADER, INDEX_MAGIC, INDEX_START, MAX_BLOCKS, MAX_TRAILER,
    PackHeader, entry, put_entry,
};
use crate::seal::{Keyring, Keys, Piece};

/// A block in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackEntry {
    /// Its name.
    pub id: BlockId,
    /// Its first byte in the pack.
    pub offset: u64,
    /// Its bytes in the pack.
    pub stored: u32,
    /// Its size before compression.
    pub plain: u32,
    /// How its bytes become the block.
    pub encoding: Encoding,
}

/// The blocks of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackIndex {
    /// The pack.
    pub pack: PackId,
    /// The data key that seals it and names its blocks.
    pub data_key: Option<DataKeyId>,
    /// Bytes of the pack.
    pub size: u64,
    /// Its blocks, without gaps from the end of the header on.
    pub entries: Vec<PackEntry>,
}

impl PackIndex {
    /// Where in a pack of `size` bytes the part lies that [`PackIndex::from_pack`] wants, by the last
    /// [`FOOTER`] bytes of the pack.
    ///
    /// # Errors
    /// [`PackError::Damaged`].
    pub fn tail(pack: PackId, size: u64, footer: &[u8]) -> Result<Range<u64>, PackError> {
        let damaged = |reason| PackError::Damaged { pack, reason };
        if size > MAX_PACK {
            return Err(damaged("it is larger than any pack"));
        }
        let length = trailer_length(footer).map_err(damaged)?;
        let start = size.checked_sub(length as u64 + FOOTER as u64);
        let start = start.filter(|start| *start > PACK_HEADER);
        Ok(start.ok_or(damaged("it is shorter than its list of blocks"))?..size)
    }

    /// Reads the list from the pack itself: its first [`HEADER`] bytes, and the range that
    /// [`PackIndex::tail`] gave.
    ///
    /// # Errors
    /// [`PackError`].
    pub fn from_pack(
        pack: PackId,
        size: u64,
        header: &[u8],
        tail: &[u8],
        keyring: &Keyring,
    ) -> Result<Self, PackError> {
        let header = PackHeader::decode(pack, header)?;
        let keys = keyring.get(header.data_key);
        let keys = keys.map_err(|source| PackError::Pack { pack, source })?;
        let damaged = |reason| PackError::Damaged { pack, reason };
        let (trailer, footer) = tail
            .split_last_chunk::<FOOTER>()
            .ok_or_else(|| damaged("it ends within its footer"))?;
        if trailer_length(footer).map_err(damaged)? != trailer.len() {
            return Err(damaged("its list of blocks has another length"));
        }
        if footer_of(&header, trailer, keys) != *footer {
            return Err(damaged("the check value of its list of blocks is wrong"));
        }
        let mut buffer = Vec::new();
        let trailer = keys
            .open(Piece::Trailer(pack), trailer, &mut buffer)
            .map_err(|source| PackError::Pack { pack, source })?;
        let entries = entries(trailer, keys.is_sealed()).map_err(damaged)?;
        let end = entries.last().map_or(PACK_HEADER, PackEntry::end);
        if size != end.saturating_add(tail.len() as u64) {
            return Err(damaged("its size does not fit its list of blocks"));
        }
        Ok(Self {
            pack,
            data_key: header.data_key,
            size,
            entries,
        })
    }

    /// The object `index/ID` of a pack of `size` bytes with this header and this end, which
    /// [`PackIndex::from_pack`] has found to be right.
    #[must_use]
    pub fn object(size: u64, header: &[u8], tail: &[u8]) -> Bytes {
        let mut object = BytesMut::with_capacity(INDEX_START + header.len() + tail.len());
        object.put_slice(INDEX_MAGIC);
        object.put_u64_le(size);
        object.put_slice(header);
        object.put_slice(tail);
        object.freeze()
    }

    /// Reads the object `index/ID`.
    ///
    /// # Errors
    /// [`PackError`].
    pub fn decode(pack: PackId, mut object: &[u8], keyring: &Keyring) -> Result<Self, PackError> {
        let damaged = |reason| PackError::Damaged { pack, reason };
        if object.len() < INDEX_START + HEADER {
            return Err(damaged("its index ends early"));
        }
        if !object.starts_with(INDEX_MAGIC) {
            return Err(damaged("its index does not begin like one"));
        }
        object.advance(INDEX_MAGIC.len());
        let size = object.get_u64_le();
        let (header, tail) = object.split_at(HEADER);
        Self::from_pack(pack, size, header, tail, keyring)
    }
}

/// Length of the trailer by the footer; whether that is right shows later.
fn trailer_length(footer: &[u8]) -> Result<usize, &'static str> {
    let mut footer = match footer.len() {
        FOOTER => &footer[CHECK..],
        _ => return Err("it ends within its footer"),
    };
    let length = footer.get_u64_le();
    if footer != END {
        return Err("it does not end like a pack");
    }
    let length = usize::try_from(length).ok();
    let length = length.filter(|length| (ENTRY..=MAX_TRAILER).contains(length));
    length.ok_or("its list of blocks has an impossible length")
}

fn footer_of(header: &PackHeader, trailer: &[u8], keys: &Keys) -> [u8; FOOTER] {
    let mut footer = [0; FOOTER];
    let length = (trailer.len() as u64).to_le_bytes();
    let check = keys.check(&[&header.encode(), &length, trailer]);
    let mut rest = footer.as_mut_slice();
    rest.put_slice(check.as_bytes());
    rest.put_slice(&length);
    rest.put_slice(END);
    footer
}

fn entries(trailer: &[u8], sealed: bool) -> Result<Vec<PackEntry>, &'static str> {
    let (parts, rest) = trailer.as_chunks::<ENTRY>();
    if !rest.is_empty() || parts.is_empty() || parts.len() > MAX_BLOCKS {
        return Err("its list of blocks has an impossible length");
    }
    let mut entries: Vec<PackEntry> = Vec::with_capacity(parts.len());
    let mut seen = HashSet::with_capacity(parts.len());
    for part in parts {
        let offset = entries.last().map_or(PACK_HEADER, PackEntry::end);
        let entry = entry(part, offset, sealed)?;
        if !seen.insert(entry.id) {
            return Err("it lists a block twice");
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Trailer and footer of a pack with these blocks, and the object `index/ID`.
pub(super) fn finish(
    header: &PackHeader,
    entries: &[PackEntry],
    keys: &Keys,
) -> Result<(Bytes, Bytes, u64), PackError> {
    let mut plain = Vec::with_capacity(entries.len() * ENTRY);
    for entry in entries {
        put_entry(&mut plain, entry);
    }
    let pack = header.pack;
    let trailer = keys.seal(Piece::Trailer(pack), &plain);
    let trailer = trailer.map_err(|source| PackError::Pack { pack, source })?;
    let footer = footer_of(header, &trailer, keys);
    let end = entries.last().map_or(PACK_HEADER, PackEntry::end);
    let size = end + (trailer.len() + FOOTER) as u64;
    let tail = [&trailer[..], &footer].concat();
    let index = PackIndex::object(size, &header.encode(), &tail);
    Ok((index.slice(INDEX_START + HEADER..), index, size))
}
