//! Pipes and sockets, as CRIU's image streamer uses them.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use rustix::io::{Errno, read, write};

use super::{FileEngine, FileError, Order};

/// Something that can only be read or written from front to back.
pub struct StreamFile<F> {
    fd: F,
    name: String,
    /// How far it has got.
    position: Mutex<u64>,
}

impl<F: AsFd> StreamFile<F> {
    /// Wraps a stream that stands at `position` of the file that it carries; `name` is for messages.
    pub fn new(fd: F, name: impl Into<String>, position: u64) -> Self {
        Self {
            fd,
            name: name.into(),
            position: Mutex::new(position),
        }
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> F {
        self.fd
    }

    fn failed(&self, op: &'static str, offset: u64, errno: Errno) -> FileError {
        FileError::Io {
            op,
            file: self.name.clone(),
            offset,
            errno,
        }
    }

    /// How many bytes lie between the position and `offset`.
    fn gap(&self, position: u64, offset: u64) -> Result<u64, FileError> {
        offset
            .checked_sub(position)
            .ok_or_else(|| FileError::OutOfOrder {
                file: self.name.clone(),
                position,
                offset,
            })
    }

    fn fill(&self, buf: &mut [u8], position: &mut u64) -> Result<(), FileError> {
        let mut done = 0;
        while done < buf.len() {
            match read(&self.fd, &mut buf[done..]) {
                Ok(0) => {
                    return Err(FileError::ShortRead {
                        file: self.name.clone(),
                        offset: *position,
                        missing: buf.len() - done,
                    });
                }
                Ok(count) => {
                    done += count;
                    *position += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("Read", *position, errno)),
            }
        }
        Ok(())
    }

    fn drain(&self, buf: &[u8], position: &mut u64) -> Result<(), FileError> {
        let mut done = 0;
        while done < buf.len() {
            match write(&self.fd, &buf[done..]) {
                Ok(0) => {
                    return Err(FileError::ShortWrite {
                        file: self.name.clone(),
                        offset: *position,
                        missing: buf.len() - done,
                    });
                }
                Ok(count) => {
                    done += count;
                    *position += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("Write", *position, errno)),
            }
        }
        Ok(())
    }
}

impl<F> fmt::Debug for StreamFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamFile")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F: AsFd + Sync> FileEngine for StreamFile<F> {
    fn order(&self) -> Order {
        Order::Sequential
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError> {
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gap = self.gap(*position, offset)?;
        let mut skipped = [0; 4096];
        while gap > 0 {
            let now = usize::try_from(gap)
                .unwrap_or(usize::MAX)
                .min(skipped.len());
            self.fill(&mut skipped[..now], &mut position)?;
            gap -= now as u64;
        }
        self.fill(buf, &mut position)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), FileError> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gap = self.gap(*position, offset)?;
        while gap > 0 {
            let now = usize::try_from(gap).unwrap_or(usize::MAX).min(ZEROS.len());
            self.drain(&ZEROS[..now], &mut position)?;
            gap -= now as u64;
        }
        self.drain(buf, &mut position)
    }

    fn holes_from(&self) -> Result<Option<u64>, FileError> {
        Ok(None)
    }

    fn set_len(&self, _: u64) -> Result<(), FileError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_skipped_and_filled_but_there_is_no_way_back() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let writer = StreamFile::new(writer, "out", 8);
        writer.write_at(b"ab", 8).unwrap();
        writer.write_at(b"cd", 12).unwrap();
        let error = writer.write_at(b"x", 13).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Stream out is at byte 14 and cannot go back to byte 13"
        );
        drop(writer);
        let reader = StreamFile::new(reader, "in", 8);
        let mut bytes = [9; 3];
        reader.read_at(&mut bytes, 9).unwrap();
        assert_eq!(&bytes, b"b\0\0");
        reader.read_at(&mut bytes[..1], 13).unwrap();
        assert_eq!(bytes[0], b'd');
        assert!(matches!(
            reader.read_at(&mut bytes, 14),
            Err(FileError::ShortRead {
                offset: 14,
                missing: 3,
                ..
            })
        ));
    }
}
