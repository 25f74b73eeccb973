//! The container of every plugin image: 8 bytes of length (little endian, the C plugin's `size_t`),
//! then that many bytes of content. What follows is ignored.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use rustix::fs::{FileType, fstat};

use crate::{FormatError, ImageDir, ImageError};

/// Bytes before the content.
pub const FRAME_HEADER: u64 = 8;

/// Longest content that is read into memory: 1 GiB, which is a process with three million buffer
/// objects (of 317 bytes each, the kernel's private data included). Memory is taken only as data
/// arrive, whatever the header says. Pages files have no such bound.
pub const MAX_CONTENT: u64 = 1 << 30;

/// A file whose content is one message.
pub trait Image: Sized {
    /// Longest content that [`read_image`] takes, in bytes.
    const MAX: u64;

    /// Decodes and checks.
    ///
    /// # Errors
    /// Content that must not be used.
    fn decode(content: &[u8]) -> Result<Self, FormatError>;

    /// Encodes, without checking.
    fn encode(&self) -> Vec<u8>;

    /// What [`decode`](Self::decode) would say about the encoded value. [`write_image`] asks first.
    ///
    /// # Errors
    /// A value that must not be written.
    fn validate(&self) -> Result<(), FormatError>;
}

/// Writes an image into `dir`, replacing any of that name.
///
/// # Errors
/// A value that does not validate, and every failure of create, write (also for lack of space) and close.
pub fn write_image(dir: &dyn ImageDir, name: &str, image: &impl Image) -> Result<(), ImageError> {
    image.validate().map_err(ImageError::format(name))?;
    let fd = dir.create(name).map_err(ImageError::io(name, "create"))?;
    write_frame(fd, name, &image.encode())
}

/// Reads an image out of `dir`; `None` when there is none of that name.
///
/// # Errors
/// [`ImageError`] for a file that cannot be read or must not be used.
pub fn read_image<I: Image>(dir: &dyn ImageDir, name: &str) -> Result<Option<I>, ImageError> {
    let Some(fd) = dir.open(name).map_err(ImageError::io(name, "open"))? else {
        return Ok(None);
    };
    let content = read_frame(fd, name, I::MAX)?;
    I::decode(&content)
        .map(Some)
        .map_err(ImageError::format(name))
}

/// Writes header and content to a file or pipe and closes it.
///
/// # Errors
/// Every failure, that of close included: on network file systems a full disk may show there first.
pub fn write_frame(fd: OwnedFd, name: &str, content: &[u8]) -> Result<(), ImageError> {
    let mut file = File::from(fd);
    let length = content.len() as u64;
    file.write_all(&length.to_le_bytes())
        .and_then(|()| file.write_all(content))
        .map_err(ImageError::io(name, "write"))?;
    close_checked(file).map_err(ImageError::io(name, "close"))
}

/// Closes a file that was written and reports the result, which dropping it would lose.
///
/// # Errors
/// The error of close. The descriptor is gone even then.
pub fn close_checked(fd: impl IntoRawFd) -> io::Result<()> {
    Ok(nix::unistd::close(fd)?)
}

/// Reads header and content of at most `limit` bytes from a file or pipe.
///
/// # Errors
/// [`ImageError::Truncated`] and [`ImageError::TooLarge`], and every failure of reading.
pub fn read_frame(fd: OwnedFd, name: &str, limit: u64) -> Result<Vec<u8>, ImageError> {
    let size = file_size(&fd).map_err(ImageError::io(name, "stat"))?;
    let mut file = File::from(fd);
    let length = read_header(&mut file, name, size)?;
    if length > limit {
        return Err(ImageError::TooLarge {
            name: name.to_owned(),
            length,
            limit,
        });
    }
    let mut content = Vec::new();
    let read = (&mut file)
        .take(length)
        .read_to_end(&mut content)
        .map_err(ImageError::io(name, "read"))? as u64;
    if read != length {
        return Err(truncated(name, FRAME_HEADER + length, FRAME_HEADER + read));
    }
    if size.is_none() {
        // CRIU's image streamer gives up when it cannot deliver all of an image.
        io::copy(&mut file, &mut io::sink()).map_err(ImageError::io(name, "read"))?;
    }
    Ok(content)
}

/// Reads the length, checked against the size of the file where that is known.
pub(crate) fn read_header(
    file: &mut impl Read,
    name: &str,
    size: Option<u64>,
) -> Result<u64, ImageError> {
    let mut header = Vec::with_capacity(8);
    file.take(FRAME_HEADER)
        .read_to_end(&mut header)
        .map_err(ImageError::io(name, "read"))?;
    let Ok(header) = <[u8; 8]>::try_from(header.as_slice()) else {
        return Err(truncated(name, FRAME_HEADER, header.len() as u64));
    };
    let length = u64::from_le_bytes(header);
    match size {
        // The subtraction cannot underflow: 8 bytes have been read from it, unless it shrank.
        Some(size) if size.saturating_sub(FRAME_HEADER) < length => {
            Err(truncated(name, length.saturating_add(FRAME_HEADER), size))
        }
        _ => Ok(length),
    }
}

/// Size of a regular file; `None` for pipes and the like.
pub(crate) fn file_size(fd: impl AsFd) -> io::Result<Option<u64>> {
    let stat = fstat(fd)?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(if regular {
        u64::try_from(stat.st_size).ok()
    } else {
        None
    })
}

pub(crate) fn truncated(name: &str, expected: u64, actual: u64) -> ImageError {
    ImageError::Truncated {
        name: name.to_owned(),
        expected,
        actual,
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
