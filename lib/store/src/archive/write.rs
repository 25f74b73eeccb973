//! Writing archives.

use std::io::{self, ErrorKind, Read, Write};

use super::convert::Facts;
use super::error::excerpt;
use super::output::{END, Member, padding};
use super::plan::{Body, Plan};
use super::{BLOCK, BoxError, Engine, Entry, WriteError};

/// A checkpoint to be written: its files and directories.
pub trait Source {
    /// Files and directories, in any order. Directories that are not listed are made up.
    fn entries(&self) -> &[Entry];

    /// The content of the file with that number in the list. It may be asked for more than once, and gives the
    /// same each time.
    ///
    /// # Errors
    /// Whatever the source says: writing ends with it.
    fn open(&mut self, index: usize) -> Result<Box<dyn Read + '_>, BoxError>;
}

/// An archive that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its members.
    pub members: usize,
    /// Its bytes.
    pub bytes: u64,
}

/// Writes a checkpoint as an archive that the engine restores: a tar, not compressed, the same bytes for the
/// same input. `facts` are what its own files may not say.
///
/// # Errors
/// [`WriteError`]: what the engine needs is not there, or it would lose something. Some may be written by then.
pub fn write<W: Write>(
    source: &mut dyn Source,
    engine: Engine,
    facts: &Facts,
    out: W,
) -> Result<Written, WriteError> {
    let plan = Plan::make(source, engine, facts)?;
    let mut out = Counter::new(out);
    plan.write(source, &mut out)?;
    out.flush().map_err(|source| WriteError::Io { source })?;
    Ok(Written {
        members: plan.members.len(),
        bytes: out.written,
    })
}

impl Plan {
    /// Bytes of the archive.
    pub(super) fn size(&self) -> u64 {
        let member = |(entry, _): &(Entry, Body)| {
            let header = Member::of(entry).header().len() as u64;
            let content = entry.size();
            header
                .saturating_add(content)
                .saturating_add(padding(content).len() as u64)
        };
        let end = 2 * BLOCK as u64;
        self.members
            .iter()
            .map(member)
            .fold(end, u64::saturating_add)
    }

    /// Writes the archive.
    pub(super) fn write(
        &self,
        source: &mut dyn Source,
        out: &mut dyn Write,
    ) -> Result<(), WriteError> {
        let failed = |source| WriteError::Io { source };
        for (entry, body) in &self.members {
            out.write_all(&Member::of(entry).header()).map_err(failed)?;
            let expected = entry.size();
            let mut counter = Counter::limited(&mut *out, expected);
            let written = match body {
                Body::Nothing => Ok(()),
                Body::Bytes(bytes) => counter.write_all(bytes).map_err(failed),
                Body::Source(index) => {
                    let mut reader = open(source, *index)?;
                    copy(&mut *reader, &entry.path, &mut counter).map(drop)
                }
                Body::Diff(diff) => diff.write(source, &mut counter),
            };
            if counter.exceeded || (written.is_ok() && counter.written != expected) {
                let member = excerpt(entry.path.as_bytes());
                return Err(WriteError::Length { member, expected });
            }
            written?;
            out.write_all(padding(expected)).map_err(failed)?;
        }
        out.write_all(&END).map_err(failed)
    }
}

/// Opens a file of the checkpoint.
pub(super) fn open(
    source: &mut dyn Source,
    index: usize,
) -> Result<Box<dyn Read + '_>, WriteError> {
    let name = source
        .entries()
        .get(index)
        .map(|entry| excerpt(entry.path.as_bytes()));
    let opened = source.open(index);
    opened.map_err(|source| WriteError::Source {
        member: name.unwrap_or_default(),
        source,
    })
}

/// Copies all there is. Tells apart which side failed, which `io::copy` does not.
pub(super) fn copy(
    reader: &mut dyn Read,
    member: &str,
    out: &mut dyn Write,
) -> Result<u64, WriteError> {
    let mut buf = vec![0; 128 << 10];
    let mut copied = 0u64;
    loop {
        let read = match reader.read(&mut buf) {
            Ok(0) => return Ok(copied),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(source) => {
                let member = excerpt(member.as_bytes());
                let source = source.into();
                return Err(WriteError::Source { member, source });
            }
        };
        let written = out.write_all(buf.get(..read).unwrap_or_default());
        written.map_err(|source| WriteError::Io { source })?;
        copied = copied.saturating_add(read as u64);
    }
}

/// Counts what is written, and lets no more through than there should be.
#[derive(Debug)]
pub(super) struct Counter<W> {
    out: W,
    pub(super) written: u64,
    limit: u64,
    /// There was more.
    pub(super) exceeded: bool,
}

impl<W: Write> Counter<W> {
    pub(super) const fn new(out: W) -> Self {
        Self::limited(out, u64::MAX)
    }

    pub(super) const fn limited(out: W, limit: u64) -> Self {
        Self {
            out,
            written: 0,
            limit,
            exceeded: false,
        }
    }
}

impl<W: Write> Write for Counter<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.limit - self.written < buf.len() as u64 {
            self.exceeded = true;
            return Err(io::Error::other("There is more than there should be"));
        }
        let written = self.out.write(buf)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
