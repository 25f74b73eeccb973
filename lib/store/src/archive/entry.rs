//! Members of an archive.

use rocferry_image::manifest::{Content, FileEntry, Span};

/// A file or directory of an archive or a checkpoint, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path below the checkpoint's directory: no leading `/`, no empty, `.` or `..` part.
    pub path: String,
    /// Permission bits, below 0o10000.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last change, milliseconds since 1970.
    pub modified_ms: u64,
    /// What it is.
    pub kind: EntryKind,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
    },
}

impl Entry {
    /// The entry of a manifest's file; `None` for a link, which no archive holds.
    #[must_use]
    pub fn from_file(file: &FileEntry) -> Option<Self> {
        let kind = match &file.content {
            Content::Directory => EntryKind::Directory,
            Content::Symlink(_) => return None,
            Content::Regular(spans) => EntryKind::File {
                size: spans
                    .iter()
                    .fold(0, |sum, span| span.size.saturating_add(sum)),
            },
        };
        Some(Self {
            path: file.path.clone(),
            mode: file.mode,
            uid: file.uid,
            gid: file.gid,
            modified_ms: file.modified_ms,
            kind,
        })
    }

    /// The manifest's file for this entry. `spans` are those of a regular file; a directory has none.
    #[must_use]
    pub fn into_file(self, spans: Vec<Span>) -> FileEntry {
        let content = match self.kind {
            EntryKind::Directory => Content::Directory,
            EntryKind::File { .. } => Content::Regular(spans),
        };
        FileEntry {
            path: self.path,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            modified_ms: self.modified_ms,
            content,
        }
    }

    /// Bytes of its content.
    #[must_use]
    pub const fn size(&self) -> u64 {
        match self.kind {
            EntryKind::Directory => 0,
            EntryKind::File { size } => size,
        }
    }
}
