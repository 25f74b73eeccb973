//! The changes of a root file system, as each engine has them: a plain tar and a list of deleted files, or the
//! compressed layer of an image, in which whiteouts stand for deletions.

use std::io::{self, Write};

use flate2::{Compression as Level, GzBuilder};

use super::deleted::{self, Meaning};
use super::error::excerpt;
use super::input::{Compression, Input};
use super::layer::Bytes;
use super::output::{END, Member};
use super::records::Records;
use super::write::{Counter, Source, copy, open};
use super::{Engine, Limits, MAX_JSON, ROOTFS_DIFF, ReadError, Refusal, WriteError, pathname};

/// gzip level: such a diff is often small, and made of anything.
const LEVEL: u32 = 3;

/// A diff that is made from what the checkpoint has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diff {
    /// The diff in the checkpoint, if there is one.
    index: Option<usize>,
    /// Paths whose whiteouts come first. A layer's deletions mean what is below it, so they can.
    deleted: Vec<String>,
    /// Leaves out whiteouts.
    strip: bool,
    gzip: bool,
    /// Bytes of it.
    pub(super) size: u64,
}

/// What is to be done with a diff, and with the list of deleted files.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The diff to be made, if it is not the one that is there.
    pub(super) diff: Option<Diff>,
    /// Deleted files besides those of the list.
    pub(super) deleted: Vec<String>,
}

/// The layer for containerd.
pub(super) fn layer(
    source: &mut dyn Source,
    index: Option<usize>,
    deleted: Vec<String>,
) -> Result<Plan, WriteError> {
    let compressed = match index {
        Some(index) => {
            let input = Input::open(open(source, index)?, &Limits::default()).map_err(nested)?;
            input.compression() != Compression::None
        }
        None => deleted.is_empty(),
    };
    if compressed && deleted.is_empty() {
        return Ok(Plan::default());
    }
    plan(source, index, deleted, false, true)
}

/// The diff for Podman and CRI-O.
pub(super) fn plain(
    source: &mut dyn Source,
    index: Option<usize>,
    engine: Engine,
) -> Result<Plan, WriteError> {
    let Some(number) = index else {
        return Ok(Plan::default());
    };
    let input = Input::open(open(source, number)?, &Limits::default()).map_err(nested)?;
    let compressed = input.compression() != Compression::None;
    let mut records = Records::new(input);
    let (mut found, mut bytes) = (Vec::new(), 0u64);
    while let Some(record) = records.next().map_err(nested)? {
        let unsupported = |reason| {
            let member = format!("{ROOTFS_DIFF}: {}", excerpt(&record.name));
            Err(WriteError::Unsupported {
                engine,
                member,
                reason,
            })
        };
        match deleted::meaning(&record.name) {
            Ok(Meaning::Member) => {}
            Ok(Meaning::Special) => {
                return unsupported("it has no word for a directory that was emptied");
            }
            Ok(Meaning::Deleted(path)) => {
                bytes += path.len() as u64 + 4;
                if bytes > MAX_JSON {
                    return unsupported("too many files were deleted");
                }
                found.push(path);
            }
            Err(refusal) => return Err(nested(record.refused(refusal))),
        }
    }
    drop(records);
    if !compressed && found.is_empty() {
        return Ok(Plan::default());
    }
    let made = plan(source, index, Vec::new(), true, false)?;
    Ok(Plan {
        deleted: found,
        ..made
    })
}

fn plan(
    source: &mut dyn Source,
    index: Option<usize>,
    deleted: Vec<String>,
    strip: bool,
    gzip: bool,
) -> Result<Plan, WriteError> {
    let mut diff = Diff {
        index,
        deleted,
        strip,
        gzip,
        size: 0,
    };
    // A tar wants to know the size first. Made twice, it needs no room anywhere.
    let mut counter = Counter::new(io::sink());
    diff.write(source, &mut counter)?;
    diff.size = counter.written;
    Ok(Plan {
        diff: Some(diff),
        deleted: Vec::new(),
    })
}

/// Whether a tar in the checkpoint has anything in it.
pub(super) fn is_empty(
    source: &mut dyn Source,
    index: usize,
    member: &str,
) -> Result<bool, WriteError> {
    let failed = |error| WriteError::Nested {
        member: member.to_owned(),
        source: Box::new(error),
    };
    let input = Input::open(open(source, index)?, &Limits::default()).map_err(failed)?;
    let mut records = Records::new(input);
    while let Some(record) = records.next().map_err(failed)? {
        let root = pathname::parse(&record.name).is_ok_and(|name| name.path.is_empty());
        if !root {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Diff {
    /// Writes it.
    pub(super) fn write(
        &self,
        source: &mut dyn Source,
        out: &mut dyn Write,
    ) -> Result<(), WriteError> {
        if !self.gzip {
            return self.content(source, out);
        }
        // No name and no time: the same bytes each time.
        let mut encoder = GzBuilder::new().write(out, Level::new(LEVEL));
        self.content(source, &mut encoder)?;
        let finished = encoder.finish();
        finished.map_err(|source| WriteError::Io { source })?;
        Ok(())
    }

    fn content(&self, source: &mut dyn Source, out: &mut dyn Write) -> Result<(), WriteError> {
        let failed = |source| WriteError::Io { source };
        for path in &self.deleted {
            let whiteout = Member {
                name: &deleted::whiteout(path),
                directory: false,
                mode: 0,
                uid: 0,
                gid: 0,
                modified: 0,
                size: 0,
            };
            out.write_all(&whiteout.header()).map_err(failed)?;
        }
        let Some(index) = self.index else {
            return out.write_all(&END).map_err(failed);
        };
        let input = Input::open(open(source, index)?, &Limits::default()).map_err(nested)?;
        if !self.strip {
            return copy(&mut Bytes(input), ROOTFS_DIFF, out).map(drop);
        }
        let mut records = Records::new(input);
        while let Some(record) = records.next().map_err(nested)? {
            let meaning = deleted::meaning(&record.name);
            let meaning = meaning.map_err(|refusal| nested(record.refused(refusal)))?;
            // Links and devices have no content, whatever their headers say: not all readers know.
            if matches!(record.kind, b'1'..=b'6') && record.stored > 0 {
                let refusal = Refusal::Number { field: "size" };
                return Err(nested(record.refused(refusal)));
            }
            if meaning == Meaning::Member {
                let copied = records.copy(&record, out).map_err(nested)?;
                copied.map_err(failed)?;
            }
        }
        out.write_all(&END).map_err(failed)
    }
}

fn nested(error: ReadError) -> WriteError {
    WriteError::Nested {
        member: ROOTFS_DIFF.to_owned(),
        source: Box::new(error),
    }
}
