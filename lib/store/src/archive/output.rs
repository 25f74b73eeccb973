//! Headers of a tar, in GNU's format: all engines read it, and it knows no size or name that is too large.

use tar::{EntryType, Header};

use super::{BLOCK, Entry, EntryKind};

/// Blocks of zeros that end a tar.
pub(super) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// What a header needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) directory: bool,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Seconds since 1970.
    pub(super) modified: u64,
    pub(super) size: u64,
}

impl<'a> Member<'a> {
    pub(super) fn of(entry: &'a Entry) -> Self {
        Self {
            name: &entry.path,
            directory: entry.kind == EntryKind::Directory,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            modified: entry.modified_ms / 1000,
            size: entry.size(),
        }
    }

    /// The blocks before its content.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut name = self.name.as_bytes().to_vec();
        if self.directory {
            name.push(b'/');
        }
        let mut blocks = Vec::with_capacity(BLOCK);
        let room = Header::new_gnu().as_old().name.len();
        if name.len() > room {
            let mut long = Header::new_gnu();
            put_name(&mut long, b"././@LongLink");
            long.set_entry_type(EntryType::GNULongName);
            long.set_size(name.len() as u64 + 1);
            long.set_mode(0o644);
            long.set_cksum();
            blocks.extend_from_slice(long.as_bytes());
            blocks.extend_from_slice(&name);
            blocks.push(0);
            blocks.resize(blocks.len().next_multiple_of(BLOCK), 0);
        }
        let mut header = Header::new_gnu();
        put_name(&mut header, &name);
        header.set_entry_type(if self.directory {
            EntryType::Directory
        } else {
            EntryType::Regular
        });
        header.set_mode(self.mode);
        header.set_uid(self.uid.into());
        header.set_gid(self.gid.into());
        header.set_mtime(self.modified);
        header.set_size(self.size);
        header.set_cksum();
        blocks.extend_from_slice(header.as_bytes());
        blocks
    }
}

/// As much of a name as there is room for.
fn put_name(header: &mut Header, name: &[u8]) {
    for (slot, byte) in header.as_old_mut().name.iter_mut().zip(name) {
        *slot = *byte;
    }
}

/// Zeros after content of that size.
pub(super) fn padding(size: u64) -> &'static [u8] {
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    let block = BLOCK as u64;
    let length = usize::try_from((block - size % block) % block).unwrap_or(0);
    ZEROS.get(..length).unwrap_or_default()
}
