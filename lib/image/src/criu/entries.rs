//! The entries of an image, one after the other.

use std::fs::File;
use std::io::{BufReader, Read};

use crate::frame::truncated;
use crate::{FormatError, ImageDir, ImageError};

/// `IMG_COMMON_MAGIC`.
pub(super) const COMMON_MAGIC: u32 = 0x5456_4319;

/// Bytes of an entry: a process with every possible thread (4 million, at most 6 bytes each) fits.
const MAX_ENTRY: u32 = 32 << 20;

/// Calls `each` with the number of every entry and its content. How many bytes the file has.
pub(super) fn entries(
    dir: &dyn ImageDir,
    name: &str,
    expected: u32,
    mut each: impl FnMut(usize, &[u8]) -> Result<(), FormatError>,
) -> Result<u64, ImageError> {
    let fd = dir.open(name).map_err(ImageError::io(name, "open"))?;
    let fd = fd.ok_or_else(|| ImageError::Missing {
        name: name.to_owned(),
    })?;
    let mut input = Input {
        name,
        input: BufReader::new(File::from(fd)),
        position: 0,
    };
    let mut magic = input.u32()?.unwrap_or_default();
    if magic == COMMON_MAGIC {
        magic = input.u32()?.unwrap_or_default();
    }
    if magic != expected {
        let error = FormatError::Magic { magic, expected };
        return Err(ImageError::format(name)(error));
    }
    let mut index = 0;
    while let Some(length) = input.u32()? {
        let content = input.entry(length)?;
        each(index, &content).map_err(ImageError::format(name))?;
        index += 1;
    }
    Ok(input.position)
}

struct Input<'a> {
    name: &'a str,
    input: BufReader<File>,
    position: u64,
}

impl Input<'_> {
    /// Up to `length` bytes, fewer only at the end of the file.
    fn bytes(&mut self, length: u32) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        (&mut self.input)
            .take(length.into())
            .read_to_end(&mut bytes)
            .map_err(ImageError::io(self.name, "read"))?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    /// A number, or `None` at the end of the file.
    fn u32(&mut self) -> Result<Option<u32>, ImageError> {
        let start = self.position;
        let bytes = self.bytes(4)?;
        match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(Some(u32::from_le_bytes(bytes))),
            Err(_) if bytes.is_empty() => Ok(None),
            Err(_) => Err(truncated(self.name, start + 4, self.position)),
        }
    }

    fn entry(&mut self, length: u32) -> Result<Vec<u8>, ImageError> {
        if length > MAX_ENTRY {
            let (name, length, limit) = (self.name.to_owned(), length.into(), MAX_ENTRY.into());
            return Err(ImageError::TooLarge {
                name,
                length,
                limit,
            });
        }
        let start = self.position;
        let bytes = self.bytes(length)?;
        if bytes.len() as u64 != u64::from(length) {
            return Err(truncated(
                self.name,
                start + u64::from(length),
                self.position,
            ));
        }
        Ok(bytes)
    }
}

/// An image of these entries, for tests.
#[cfg(test)]
pub(super) fn image(magics: &[u32], entries: &[Vec<u8>]) -> Vec<u8> {
    let mut content: Vec<u8> = magics.iter().copied().flat_map(u32::to_le_bytes).collect();
    for entry in entries {
        content.extend(u32::try_from(entry.len()).expect("short").to_le_bytes());
        content.extend(entry);
    }
    content
}
