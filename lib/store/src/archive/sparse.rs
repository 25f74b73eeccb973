//! Files with holes: where the bytes that are in the archive belong.

use std::io::{self, Read};

use tar::GnuSparseHeader;

use super::Refusal;
use super::pax::decimal;
use super::records::number;

/// Most parts of a sparse file.
const MAX_PARTS: usize = 1 << 18;

/// Where the content of a sparse file is: parts in ascending order, holes between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Map {
    /// First byte and number of bytes of each part.
    parts: Vec<(u64, u64)>,
    /// Size of the file, holes included.
    pub(super) size: u64,
}

const fn refused<T>(reason: &'static str) -> Result<T, Refusal> {
    Err(Refusal::Sparse { reason })
}

impl Map {
    pub(super) fn new(size: u64) -> Self {
        let parts = Vec::new();
        Self { parts, size }
    }

    /// Adds the parts of a GNU header, or of a block that continues it.
    pub(super) fn add_gnu(&mut self, parts: &[GnuSparseHeader]) -> Result<(), Refusal> {
        let field = |bytes: &[u8]| {
            let field = "sparse map";
            number(bytes).ok_or(Refusal::Number { field })
        };
        for part in parts {
            if part.is_empty() {
                continue;
            }
            self.add(field(&part.offset)?, field(&part.numbytes)?)?;
        }
        Ok(())
    }

    fn add(&mut self, offset: u64, length: u64) -> Result<(), Refusal> {
        if self.parts.len() >= MAX_PARTS {
            return refused("it has too many parts");
        }
        let end = self
            .parts
            .last()
            .map_or(0, |(offset, length)| offset + length);
        if offset < end {
            return refused("its parts overlap, or are in disorder");
        }
        match offset.checked_add(length) {
            Some(end) if end <= self.size => {}
            _ => return refused("a part is beyond its end"),
        }
        self.parts.push((offset, length));
        Ok(())
    }

    /// Checks that the parts have as many bytes as are in the archive.
    pub(super) fn check(&self, stored: u64) -> Result<(), Refusal> {
        // No overflow: the parts do not overlap.
        let sum: u64 = self.parts.iter().map(|(_, length)| length).sum();
        if sum != stored {
            return refused("its parts have not as many bytes as it has in the archive");
        }
        Ok(())
    }

    /// The whole file, holes included, from the bytes that are in the archive.
    pub(super) fn reader<R: Read>(&self, inner: R) -> Whole<'_, R> {
        Whole {
            inner,
            map: self,
            part: 0,
            position: 0,
        }
    }
}

/// The map that PAX 1.0 puts before the content, as lines of decimal numbers.
#[derive(Debug)]
pub(super) struct Lines {
    map: Map,
    digits: Vec<u8>,
    /// Parts still to come; `None` before the first line.
    left: Option<u64>,
    offset: Option<u64>,
}

impl Lines {
    pub(super) fn new(size: u64) -> Self {
        Self {
            map: Map::new(size),
            digits: Vec::new(),
            left: None,
            offset: None,
        }
    }

    /// Takes the next block. Returns true after the last one.
    pub(super) fn take(&mut self, block: &[u8]) -> Result<bool, Refusal> {
        for byte in block {
            if *byte != b'\n' {
                if self.digits.len() >= 20 {
                    return refused("its map has a number that is too long");
                }
                self.digits.push(*byte);
                continue;
            }
            let Some(value) = decimal(&self.digits) else {
                return refused("its map has something else than numbers");
            };
            self.digits.clear();
            match (self.left, self.offset.take()) {
                (None, _) => self.left = Some(value),
                (Some(_), None) => self.offset = Some(value),
                (Some(left), Some(offset)) => {
                    self.map.add(offset, value)?;
                    self.left = Some(left - 1);
                }
            }
            if self.left == Some(0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn finish(self) -> Map {
        self.map
    }
}

/// Reads a sparse file.
#[derive(Debug)]
pub(super) struct Whole<'a, R> {
    inner: R,
    map: &'a Map,
    /// The part that is next, or that the position is in.
    part: usize,
    position: u64,
}

impl<R: Read> Read for Whole<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let next = loop {
            match self.map.parts.get(self.part) {
                Some((offset, length)) if offset + length <= self.position => self.part += 1,
                next => break next,
            }
        };
        let (hole, end) = match next {
            Some((offset, _)) if self.position < *offset => (true, *offset),
            Some((offset, length)) => (false, offset + length),
            None => (true, self.map.size),
        };
        let left = usize::try_from(end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        let Some(buf) = buf.get_mut(..wanted) else {
            return Ok(0);
        };
        let read = if hole {
            buf.fill(0);
            wanted
        } else {
            self.inner.read(buf)?
        };
        self.position = self.position.saturating_add(read as u64);
        Ok(read)
    }
}
