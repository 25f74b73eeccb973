//! Pipes and sockets, as CRIU's image streamer uses them.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};

use super::{FileEngine, FileError, Order};

/// Name of reading in messages.
const READ: &str = "Read";

/// Something that can only be read or written from front to back.
///
/// Whoever is at the other end may be slow, but not silent: each wait for a byte has a limit.
pub struct StreamFile<F> {
    fd: F,
    name: String,
    /// The longest wait for the other end.
    patience: Duration,
    /// How far it has got.
    position: Mutex<u64>,
}

impl<F: AsFd> StreamFile<F> {
    /// Wraps a stream that stands at `position` of the file that it carries; `name` is for messages. An
    /// operation fails when not a single byte can be moved for as long as `patience`. The open file no longer
    /// blocks from then on.
    ///
    /// # Errors
    /// The errno of `fcntl`.
    pub fn new(
        fd: F,
        name: impl Into<String>,
        position: u64,
        patience: Duration,
    ) -> Result<Self, Errno> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self {
            fd,
            name: name.into(),
            patience,
            position: Mutex::new(position),
        })
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> F {
        self.fd
    }

    /// Reads and forgets what is left.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read_to_end(&self) -> Result<(), FileError> {
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let mut skipped = [0; 4096];
        loop {
            match read(&self.fd, &mut skipped) {
                Ok(0) => return Ok(()),
                Ok(count) => *position += count as u64,
                Err(errno) => self.after(READ, *position, errno)?,
            }
        }
    }

    fn failed(&self, op: &'static str, offset: u64, errno: Errno) -> FileError {
        FileError::Io {
            op,
            file: self.name.clone(),
            offset,
            errno,
        }
    }

    /// What to do after a read or write has failed: nothing when it can be tried again now.
    fn after(&self, op: &'static str, offset: u64, errno: Errno) -> Result<(), FileError> {
        match errno {
            Errno::INTR => Ok(()),
            Errno::AGAIN => self.wait(op, offset),
            _ => Err(self.failed(op, offset, errno)),
        }
    }

    /// Waits until the other end has given or taken something, or has gone.
    fn wait(&self, op: &'static str, offset: u64) -> Result<(), FileError> {
        let event = if op == READ {
            PollFlags::IN
        } else {
            PollFlags::OUT
        };
        let begun = Instant::now();
        loop {
            let left = self.patience.saturating_sub(begun.elapsed());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.fd, event)], Some(&left)) {
                Ok(0) => {
                    return Err(FileError::Stalled {
                        op,
                        file: self.name.clone(),
                        offset,
                        limit: self.patience,
                    });
                }
                // Also when the other end has gone: the next read or write tells.
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("Poll", offset, errno)),
            }
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
                Err(errno) => self.after(READ, *position, errno)?,
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
                Err(errno) => self.after("Write", *position, errno)?,
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

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn gaps_are_skipped_and_filled_but_there_is_no_way_back() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let writer = StreamFile::new(writer, "out", 8, LONG).unwrap();
        writer.write_at(b"ab", 8).unwrap();
        writer.write_at(b"cd", 12).unwrap();
        let error = writer.write_at(b"x", 13).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Stream out is at byte 14 and cannot go back to byte 13"
        );
        drop(writer);
        let reader = StreamFile::new(reader, "in", 8, LONG).unwrap();
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

    #[test]
    fn a_writer_that_says_nothing_is_given_up() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"ab").unwrap();
        let reader = StreamFile::new(reader, "in", 8, SHORT).unwrap();
        let begun = Instant::now();
        let error = reader.read_at(&mut [0; 3], 8).unwrap_err();
        assert!(begun.elapsed() >= SHORT);
        assert_eq!(
            error.to_string(),
            "Read of in has stood still for 50ms at byte 10"
        );
        let error = reader.read_to_end().unwrap_err();
        assert!(matches!(error, FileError::Stalled { offset: 10, .. }));
    }

    #[test]
    fn a_reader_that_takes_nothing_is_given_up() {
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let writer = StreamFile::new(writer, "out", 0, SHORT).unwrap();
        // More than a pipe holds.
        let error = writer.write_at(&vec![1; 4 << 20], 0).unwrap_err();
        let FileError::Stalled { op, offset, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(op, "Write");
        assert!(offset > 0 && offset < 4 << 20, "{offset}");
    }

    #[test]
    fn a_slow_other_end_is_waited_for() {
        const BYTES: usize = 300 << 10;
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        // Ten pauses, all together longer than the patience.
        let slow = std::thread::spawn(move || {
            let reader = StreamFile::new(reader, "in", 0, LONG).unwrap();
            for piece in 0..10 {
                std::thread::sleep(SHORT / 2);
                let mut bytes = vec![0; BYTES / 10];
                reader
                    .read_at(&mut bytes, (piece * BYTES / 10) as u64)
                    .unwrap();
            }
            reader.read_to_end().unwrap();
        });
        let writer = StreamFile::new(writer, "out", 0, SHORT * 4).unwrap();
        writer.write_at(&vec![1; BYTES], 0).unwrap();
        writer.write_at(&[2; 10], BYTES as u64).unwrap();
        drop(writer);
        slow.join().unwrap();
    }

    #[test]
    fn an_other_end_that_has_gone_is_no_wait() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(writer);
        let reader = StreamFile::new(reader, "in", 0, LONG).unwrap();
        assert!(matches!(
            reader.read_at(&mut [0], 0),
            Err(FileError::ShortRead { .. })
        ));
        reader.read_to_end().unwrap();
    }
}
