//! A tar as what it is: headers, each with those that extend it, and content. What the members are is not
//! looked at here, only that all readers would see the same ones.

use std::io::{self, Read, Write};

use tar::{GnuExtSparseHeader, Header};

use super::error::excerpt;
use super::input::Input;
use super::pathname::MAX_PATH;
use super::pax::{self, Pax};
use super::sparse::{Lines, Map};
use super::{BLOCK, ReadError, Refusal};

/// Largest PAX header, in bytes: a few paths and attributes of a file.
const MAX_PAX: u64 = 256 << 10;
/// Largest long name, in bytes.
const MAX_LONG: u64 = MAX_PATH as u64 + 1;
/// Largest size that needs no extension of the header.
const MAX_OCTAL: u64 = 0o77_777_777_777;

/// A member and where its content is.
#[derive(Debug)]
pub(super) struct Record {
    /// Its header and those that extend it, as they are.
    pub(super) blocks: Vec<u8>,
    /// The flag in the header.
    pub(super) kind: u8,
    pub(super) name: Vec<u8>,
    pub(super) mode: u64,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) modified_ms: u64,
    /// Bytes of content in the archive.
    pub(super) stored: u64,
    /// Where its parts belong, if it has holes.
    pub(super) sparse: Option<Map>,
}

impl Record {
    /// Bytes of content, holes included.
    pub(super) fn size(&self) -> u64 {
        self.sparse.as_ref().map_or(self.stored, |map| map.size)
    }

    /// The error for it.
    pub(super) fn refused(&self, refusal: Refusal) -> ReadError {
        let member = excerpt(&self.name);
        ReadError::Member { member, refusal }
    }
}

/// What extends the header that comes next.
#[derive(Default)]
struct Extensions {
    blocks: Vec<u8>,
    name: Option<Vec<u8>>,
    link: bool,
    pax: Option<Pax>,
}

/// The members of a tar.
pub(super) struct Records<R: Read> {
    pub(super) input: Input<R>,
    /// Bytes left of the current member's content.
    content: u64,
    /// Bytes after it up to the next block.
    padding: u64,
    /// Why the content could not be read.
    fault: Option<ReadError>,
}

impl<R: Read> Records<R> {
    pub(super) const fn new(input: Input<R>) -> Self {
        Self {
            input,
            content: 0,
            padding: 0,
            fault: None,
        }
    }

    /// The next member; `None` at the end, which is there and which nothing follows.
    pub(super) fn next(&mut self) -> Result<Option<Record>, ReadError> {
        self.skip()?;
        let mut extensions = Extensions::default();
        loop {
            let at = self.input.position();
            let refused = |refusal| ReadError::Header { at, refusal };
            let block = self.block()?;
            if block == [0; BLOCK] {
                if !extensions.blocks.is_empty() {
                    return Err(refused(Refusal::Dangling));
                }
                self.end()?;
                return Ok(None);
            }
            let mut header = Header::new_old();
            *header.as_mut_bytes() = block;
            let stored = check(&header).map_err(refused)?;
            let kind = header.entry_type().as_byte();
            let Some((what, limit)) = extension(kind) else {
                return self.member(&header, extensions, stored).map(Some);
            };
            if stored > limit {
                return Err(refused(Refusal::HeaderSize {
                    what,
                    bytes: stored,
                    limit,
                }));
            }
            self.expect(stored);
            let mut data = Vec::new();
            // Memory for what comes, not for what is said to come.
            let read = Data(self).read_to_end(&mut data);
            self.check_fault(read.err())?;
            extensions.add(kind, what, &data).map_err(refused)?;
            extensions.blocks.extend_from_slice(&block);
            extensions.blocks.extend_from_slice(&data);
            let padded = extensions.blocks.len().next_multiple_of(BLOCK);
            extensions.blocks.resize(padded, 0);
            self.skip()?;
        }
    }

    /// The content of the current member, as it is in the archive.
    pub(super) const fn content(&mut self) -> Data<'_, R> {
        Data(self)
    }

    /// Why reading the content failed, if it did; else what the reader of it says.
    pub(super) fn check_fault(&mut self, error: Option<io::Error>) -> Result<(), ReadError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let at = self.input.position();
        error.map_or(Ok(()), |source| Err(ReadError::Io { at, source }))
    }

    /// Writes the current member as it is.
    pub(super) fn copy(
        &mut self,
        record: &Record,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>, ReadError> {
        let padding = usize::try_from(self.padding).unwrap_or(0);
        let copied = out.write_all(&record.blocks);
        let copied = copied.and_then(|()| io::copy(&mut Data(self), out));
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let zeros = [0; BLOCK];
        let end = |_| out.write_all(zeros.get(..padding).unwrap_or_default());
        Ok(copied.and_then(end))
    }

    fn member(
        &mut self,
        header: &Header,
        extensions: Extensions,
        stored: u64,
    ) -> Result<Record, ReadError> {
        let Extensions {
            mut blocks,
            name,
            link,
            pax,
        } = extensions;
        blocks.extend_from_slice(header.as_bytes());
        let pax = pax.unwrap_or_default();
        let pax_sparse = pax.sparse.is_set();
        let kind = header.entry_type().as_byte();
        let mut record = Record {
            blocks,
            kind,
            name: name
                .or(pax.path)
                .unwrap_or_else(|| header.path_bytes().into_owned()),
            mode: 0,
            uid: 0,
            gid: 0,
            modified_ms: 0,
            stored,
            sparse: None,
        };
        if let Some(name) = pax.sparse.name {
            record.name = name;
        }
        if (link || pax.link) && !matches!(kind, b'1' | b'2') {
            return Err(record.refused(Refusal::Kind {
                what: "no link, but has a target",
            }));
        }
        if let Some(size) = pax.size {
            if size != stored && size <= MAX_OCTAL {
                return Err(record.refused(Refusal::Twice { what: "sizes" }));
            }
            if i64::try_from(size).is_err() {
                return Err(record.refused(Refusal::Number { field: "size" }));
            }
            record.stored = size;
        }
        let old = header.as_old();
        let field = |value: Option<u64>, bytes: &[u8], field| {
            value
                .or_else(|| number(bytes))
                .ok_or(Refusal::Number { field })
        };
        let negative = old.mtime.first().is_some_and(|byte| *byte == 0xff);
        let modified = pax.modified_ms.or(negative.then_some(0));
        let seconds = modified.is_none().then(|| number(&old.mtime));
        let modified = modified.or_else(|| seconds?.and_then(|seconds| seconds.checked_mul(1000)));
        let numbers = || {
            Ok((
                field(None, &old.mode, "mode")?,
                field(pax.uid, &old.uid, "uid")?,
                field(pax.gid, &old.gid, "gid")?,
                modified.ok_or(Refusal::Number { field: "mtime" })?,
            ))
        };
        match numbers() {
            Ok((mode, uid, gid, modified_ms)) => {
                record.mode = mode;
                record.uid = uid;
                record.gid = gid;
                record.modified_ms = modified_ms;
            }
            Err(refusal) => return Err(record.refused(refusal)),
        }
        if kind == b'S' {
            let map = self.gnu_map(header, &mut record)?;
            record.sparse = Some(map);
        }
        self.expect(record.stored);
        if pax_sparse {
            let format = (pax.sparse.major, pax.sparse.minor, pax.sparse.old);
            let size = match (format, pax.sparse.size) {
                ((Some(1), Some(0), false), Some(size)) if kind == b'0' => size,
                _ => {
                    let reason = "it is of a PAX format that is not 1.0";
                    return Err(record.refused(Refusal::Sparse { reason }));
                }
            };
            let map = self.pax_map(size, &mut record)?;
            record.sparse = Some(map);
        }
        if let Some(map) = &record.sparse {
            map.check(record.stored)
                .map_err(|refusal| record.refused(refusal))?;
        }
        Ok(record)
    }

    /// The map of a sparse file in GNU's own format: in its header and the blocks after it.
    fn gnu_map(&mut self, header: &Header, record: &mut Record) -> Result<Map, ReadError> {
        let Some(gnu) = header.as_gnu() else {
            let reason = "its header is not GNU's";
            return Err(record.refused(Refusal::Sparse { reason }));
        };
        let Some(size) = number(&gnu.realsize) else {
            let field = "size";
            return Err(record.refused(Refusal::Number { field }));
        };
        let mut map = Map::new(size);
        map.add_gnu(&gnu.sparse)
            .map_err(|refusal| record.refused(refusal))?;
        let mut more = gnu.is_extended();
        while more {
            let mut block = GnuExtSparseHeader::new();
            *block.as_mut_bytes() = self.block()?;
            record.blocks.extend_from_slice(block.as_bytes());
            map.add_gnu(block.sparse())
                .map_err(|refusal| record.refused(refusal))?;
            // Without a part it would go on for nothing.
            more = block.is_extended();
            if more && block.sparse().iter().all(tar::GnuSparseHeader::is_empty) {
                let reason = "a block of its map is empty";
                return Err(record.refused(Refusal::Sparse { reason }));
            }
        }
        Ok(map)
    }

    /// The map of a sparse file in the PAX format 1.0: the first blocks of its content.
    fn pax_map(&mut self, size: u64, record: &mut Record) -> Result<Map, ReadError> {
        let mut lines = Lines::new(size);
        loop {
            let Some(left) = self.content.checked_sub(BLOCK as u64) else {
                let reason = "its map is cut off";
                return Err(record.refused(Refusal::Sparse { reason }));
            };
            let block = self.block()?;
            self.content = left;
            record.stored = left;
            record.blocks.extend_from_slice(&block);
            let last = lines.take(&block);
            if last.map_err(|refusal| record.refused(refusal))? {
                return Ok(lines.finish());
            }
        }
    }

    const fn expect(&mut self, content: u64) {
        self.content = content;
        let block = BLOCK as u64;
        self.padding = (block - content % block) % block;
    }

    /// Passes over what is left of the current member.
    fn skip(&mut self) -> Result<(), ReadError> {
        let skipped = io::copy(&mut Data(self), &mut io::sink());
        self.check_fault(skipped.err())?;
        self.content = std::mem::take(&mut self.padding);
        let skipped = io::copy(&mut Data(self), &mut io::sink());
        self.check_fault(skipped.err())
    }

    fn block(&mut self) -> Result<[u8; BLOCK], ReadError> {
        let mut block = [0; BLOCK];
        if self.input.fill(&mut block)? < BLOCK {
            let at = self.input.position();
            return Err(ReadError::Truncated { at });
        }
        Ok(block)
    }

    /// After the first block of zeros: there is a second one, and then zeros or nothing.
    fn end(&mut self) -> Result<(), ReadError> {
        let mut at = self.input.position();
        if self.block()? != [0; BLOCK] {
            return Err(ReadError::Trailing { at });
        }
        let mut buf = vec![0; 64 * BLOCK];
        loop {
            at = self.input.position();
            let read = self.input.read(&mut buf)?;
            let read = buf.get(..read).unwrap_or_default();
            if read.is_empty() {
                return Ok(());
            }
            if read.iter().any(|byte| *byte != 0) {
                return Err(ReadError::Trailing { at });
            }
        }
    }
}

impl Extensions {
    fn add(&mut self, kind: u8, what: &'static str, data: &[u8]) -> Result<(), Refusal> {
        // PAX and GNU have names of their own each: readers differ in which one counts.
        let name = match kind {
            b'g' => return pax::check_global(data),
            b'K' if self.link => return Err(Refusal::Twice { what }),
            b'K' => {
                self.link = true;
                return Ok(());
            }
            b'L' => {
                let end = data.iter().position(|byte| *byte == 0);
                let (name, zeros) = data.split_at(end.unwrap_or(data.len()));
                if zeros.iter().any(|byte| *byte != 0) {
                    return Err(Refusal::ZeroByte);
                }
                if self.name.replace(name.to_vec()).is_some() {
                    return Err(Refusal::Twice { what });
                }
                true
            }
            _ => {
                let pax = pax::parse(data)?;
                if self.pax.is_some() {
                    return Err(Refusal::Twice { what });
                }
                self.pax = Some(pax);
                true
            }
        };
        let named = self.pax.as_ref().is_some_and(|pax| pax.path.is_some());
        if name && named && self.name.is_some() {
            return Err(Refusal::Twice { what: "names" });
        }
        Ok(())
    }
}

/// What is no member, what it is called, and how large it may be.
const fn extension(kind: u8) -> Option<(&'static str, u64)> {
    match kind {
        b'x' => Some(("PAX header", MAX_PAX)),
        b'g' => Some(("PAX header for all members", MAX_PAX)),
        b'L' => Some(("long name", MAX_LONG)),
        b'K' => Some(("long name of a target", MAX_LONG)),
        _ => None,
    }
}

/// Checks the sum and the format; returns the size.
fn check(header: &Header) -> Result<u64, Refusal> {
    let old = header.as_old();
    let bytes = header.as_bytes();
    let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
    let own: u64 = old.cksum.iter().map(|byte| u64::from(*byte)).sum();
    // Its own field counts as spaces.
    let sum = sum - own + u64::from(b' ') * old.cksum.len() as u64;
    if number(&old.cksum) != Some(sum) {
        return Err(Refusal::Checksum);
    }
    if header.as_ustar().is_none() && header.as_gnu().is_none() {
        return Err(Refusal::Format);
    }
    number(&old.size)
        .filter(|size| i64::try_from(*size).is_ok())
        .ok_or(Refusal::Number { field: "size" })
}

/// A number in a header: octal digits, or binary if the first bit is set. Empty fields are 0.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if let [first, rest @ ..] = field
        && first & 0x80 != 0
    {
        // Negative, or more than 64 bits hold.
        let (high, low) = rest.split_at_checked(rest.len().saturating_sub(8))?;
        if first & 0x7f != 0 || high.iter().any(|byte| *byte != 0) {
            return None;
        }
        return Some(low.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    }
    let field = field.trim_ascii_start();
    let digits = field
        .iter()
        .take_while(|byte| (b'0'..=b'7').contains(*byte))
        .count();
    let (digits, rest) = field.split_at_checked(digits)?;
    if !rest.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return None;
    }
    // 12 digits at most: no overflow.
    Some(
        digits
            .iter()
            .fold(0, |sum, digit| sum << 3 | u64::from(digit - b'0')),
    )
}

/// What is left of a member's content, as it is in the archive.
pub(super) struct Data<'a, R: Read>(&'a mut Records<R>);

impl<R: Read> Read for Data<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let records = &mut *self.0;
        let left = usize::try_from(records.content).unwrap_or(usize::MAX);
        let wanted = left.min(buf.len());
        let Some(buf) = buf.get_mut(..wanted).filter(|buf| !buf.is_empty()) else {
            return Ok(0);
        };
        let at = records.input.position();
        let fault = match records.input.read(buf) {
            Ok(0) => ReadError::Truncated { at },
            Ok(read) => {
                records.content = records.content.saturating_sub(read as u64);
                return Ok(read);
            }
            Err(error) => error,
        };
        records.fault = Some(fault);
        Err(io::Error::other("The archive cannot be read"))
    }
}
