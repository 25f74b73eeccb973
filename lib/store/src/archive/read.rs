//! Reading archives.

use std::io::{self, Cursor, Read};

use rocferry_image::manifest::Source;

use super::error::excerpt;
use super::input::{Compression, Input};
use super::origin::Facts;
use super::pathname::{self, Pathname};
use super::records::{Record, Records};
use super::tree::Tree;
use super::{
    BoxError, CONFIG_DUMP, Entry, EntryKind, INVENTORY, Limits, MAX_JSON, Origin, ReadError,
    Refusal, SPEC_DUMP, STATUS_DUMP, json,
};

/// Files that are JSON, and whether they may be empty.
const JSON: &[(&str, bool)] = &[
    (CONFIG_DUMP, false),
    (SPEC_DUMP, false),
    (STATUS_DUMP, false),
    (super::DELETED_FILES, true),
    ("bind.mounts", true),
    ("network.status", true),
    ("pod.dump", true),
    ("pod.options", true),
];

/// The year 10000, in milliseconds since 1970.
const MAX_TIME: u64 = 253_402_300_800_000;

/// Who takes the members of an archive. What it says is checked by then, but the archive may still turn out to
/// be refused: nothing counts before [`read`] returns.
pub trait Sink {
    /// Takes a directory. One that is not listed before its content is made up; should it be listed after all,
    /// it comes once more, with what the archive says of it.
    ///
    /// # Errors
    /// Whatever the sink says: reading ends with it.
    fn directory(&mut self, entry: &Entry) -> Result<(), BoxError>;

    /// Takes a file. What it does not read of the content is passed over.
    ///
    /// # Errors
    /// Whatever the sink says: reading ends with it.
    fn file(&mut self, entry: &Entry, content: Content<'_>) -> Result<(), BoxError>;
}

/// Content of a file.
pub struct Content<'a> {
    reader: &'a mut dyn Read,
    offset: Option<u64>,
}

impl Content<'_> {
    /// Where the content begins in the input, if it lies there as it is: the archive is not compressed, and the
    /// file has no holes.
    #[must_use]
    pub const fn offset(&self) -> Option<u64> {
        self.offset
    }
}

impl Read for Content<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf)
    }
}

impl std::fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// An archive that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Who made it.
    pub origin: Origin,
    /// What it is of.
    pub source: Source,
    /// How it was compressed.
    pub compression: Compression,
    /// Number of files and directories.
    pub members: usize,
    /// Bytes of all files, holes included.
    pub bytes: u64,
}

/// Reads an archive: a tar in the formats ustar, GNU or PAX, as it is or compressed with gzip or zstd.
///
/// # Errors
/// [`ReadError`] for whatever is refused, and for what the sink says.
pub fn read<R: Read>(input: R, limits: &Limits, sink: &mut dyn Sink) -> Result<Archive, ReadError> {
    read_at(input, 0, limits, sink)
}

/// Reads an archive that begins at byte `base` of something.
pub(super) fn read_at<R: Read>(
    input: R,
    base: u64,
    limits: &Limits,
    sink: &mut dyn Sink,
) -> Result<Archive, ReadError> {
    let input = Input::open(input, limits)?;
    let compression = input.compression();
    let mut reader = Reader {
        records: Records::new(input),
        base,
        limits,
        tree: Tree::default(),
        facts: Facts::default(),
        bytes: 0,
    };
    while let Some(record) = reader.records.next()? {
        reader.member(&record, sink)?;
    }
    for member in [CONFIG_DUMP, SPEC_DUMP, INVENTORY] {
        if !reader.tree.is_file(member) {
            return Err(ReadError::Missing { member });
        }
    }
    let (origin, source) = reader.facts.finish();
    Ok(Archive {
        origin,
        source,
        compression,
        members: reader.tree.len(),
        bytes: reader.bytes,
    })
}

struct Reader<'a, R: Read> {
    records: Records<R>,
    base: u64,
    limits: &'a Limits,
    tree: Tree,
    facts: Facts,
    /// Bytes of all files up to now.
    bytes: u64,
}

impl<R: Read> Reader<'_, R> {
    fn member(&mut self, record: &Record, sink: &mut dyn Sink) -> Result<(), ReadError> {
        let refused = |refusal| record.refused(refusal);
        let name = pathname::parse(&record.name).map_err(refused)?;
        let directory = is_directory(record, &name).map_err(refused)?;
        if name.path.is_empty() {
            return self.tree.root().map_err(refused);
        }
        let entry = entry(record, name.path, directory).map_err(refused)?;
        let size = entry.size();
        self.bytes = self.bytes.saturating_add(size);
        let limit = self.limits.total;
        if self.bytes > limit {
            let bytes = self.bytes;
            return Err(refused(Refusal::Total { bytes, limit }));
        }
        if record.sparse.is_some() {
            // Holes cost nothing in the archive, but work for whoever reads them.
            let consumed = self.records.input.consumed().saturating_add(record.stored);
            let produced = self.limits.produced(consumed);
            if self.bytes > produced {
                return Err(ReadError::Expansion { consumed, produced });
            }
        }
        let implied = self
            .tree
            .add(name.path, directory, self.limits)
            .map_err(refused)?;
        for path in implied {
            let above = Entry {
                path,
                mode: 0o700,
                uid: entry.uid,
                gid: entry.gid,
                modified_ms: entry.modified_ms,
                kind: EntryKind::Directory,
            };
            sink.directory(&above)
                .map_err(|source| taking(&above.path, source))?;
        }
        if directory {
            return sink
                .directory(&entry)
                .map_err(|source| taking(&entry.path, source));
        }
        let plain =
            record.sparse.is_none() && self.records.input.compression() == Compression::None;
        let offset = plain.then(|| self.records.input.position().saturating_add(self.base));
        if let Some((_, empty)) = JSON.iter().find(|(path, _)| *path == entry.path) {
            return self.json(record, &entry, *empty, offset, sink);
        }
        let mut data = self.records.content();
        let taken = match &record.sparse {
            None => sink.file(
                &entry,
                Content {
                    reader: &mut data,
                    offset,
                },
            ),
            Some(map) => {
                let reader = &mut map.reader(data);
                sink.file(&entry, Content { reader, offset })
            }
        };
        // What the sink makes of a broken archive does not matter.
        self.records.check_fault(None)?;
        taken.map_err(|source| taking(&entry.path, source))
    }

    /// Looks into one of the JSON files before the sink has it.
    fn json(
        &mut self,
        record: &Record,
        entry: &Entry,
        empty: bool,
        offset: Option<u64>,
        sink: &mut dyn Sink,
    ) -> Result<(), ReadError> {
        let (bytes, limit) = (entry.size(), MAX_JSON);
        if bytes > limit {
            return Err(record.refused(Refusal::Size { bytes, limit }));
        }
        let mut data = Vec::new();
        let content = self.records.content();
        let read = match &record.sparse {
            None => { content }.read_to_end(&mut data),
            Some(map) => map.reader(content).read_to_end(&mut data),
        };
        self.records.check_fault(read.err())?;
        if !(empty && data.is_empty()) {
            let checked = json::check(&data).and_then(|()| self.facts.take(&entry.path, &data));
            checked.map_err(|refusal| record.refused(refusal))?;
        }
        let reader = &mut Cursor::new(data);
        let taken = sink.file(entry, Content { reader, offset });
        taken.map_err(|source| taking(&entry.path, source))
    }
}

fn taking(path: &str, source: BoxError) -> ReadError {
    let member = excerpt(path.as_bytes());
    ReadError::Sink { member, source }
}

/// Whether a member is a directory; anything but that and a file is refused.
pub(super) fn is_directory(record: &Record, name: &Pathname<'_>) -> Result<bool, Refusal> {
    let what = match record.kind {
        b'0' | 0 | b'S' if name.slash => return Err(Refusal::FileWithSlash),
        b'0' | 0 | b'S' => return Ok(false),
        b'5' if record.stored > 0 => {
            let bytes = record.stored;
            return Err(Refusal::DirectoryContent { bytes });
        }
        b'5' => return Ok(true),
        b'1' => "a hard link",
        b'2' => "a symbolic link",
        b'3' => "a character device",
        b'4' => "a block device",
        b'6' => "a FIFO",
        b'D' | b'M' | b'V' => "part of a backup",
        _ => "of an unknown kind",
    };
    Err(Refusal::Kind { what })
}

fn entry(record: &Record, path: &str, directory: bool) -> Result<Entry, Refusal> {
    let id = |id: u64, field| u32::try_from(id).map_err(|_| Refusal::Number { field });
    let modified_ms = record.modified_ms;
    if modified_ms >= MAX_TIME {
        return Err(Refusal::Number { field: "mtime" });
    }
    let size = record.size();
    let kind = if directory {
        EntryKind::Directory
    } else if i64::try_from(size).is_ok() {
        EntryKind::File { size }
    } else {
        return Err(Refusal::Number { field: "size" });
    };
    Ok(Entry {
        path: path.to_owned(),
        // Some writers put the kind of the file there as well.
        mode: u32::try_from(record.mode & 0o7777).unwrap_or(0),
        uid: id(record.uid, "uid")?,
        gid: id(record.gid, "gid")?,
        modified_ms,
        kind,
    })
}
