//! Files with offsets.

use std::fmt;
use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat, ftruncate};
use rustix::io::{Errno, pread, pwrite};

use super::{FileEngine, FileError, Order};

/// An open regular file, through `pread` and `pwrite`: its file position is not used.
pub struct FdFile<F> {
    fd: F,
    name: String,
}

impl<F: AsFd> FdFile<F> {
    /// Wraps an open file; `name` is for messages. One that is written should be new or truncated, else
    /// zeros must be written wherever it had bytes.
    pub fn new(fd: F, name: impl Into<String>) -> Self {
        Self {
            fd,
            name: name.into(),
        }
    }

    /// Gives the file back.
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
}

impl<F> fmt::Debug for FdFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FdFile")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F: AsFd + Sync> FileEngine for FdFile<F> {
    fn order(&self) -> Order {
        Order::Any
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), FileError> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            match pread(&self.fd, &mut buf[done..], at) {
                Ok(0) => {
                    return Err(FileError::ShortRead {
                        file: self.name.clone(),
                        offset: at,
                        missing: buf.len() - done,
                    });
                }
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("Read", at, errno)),
            }
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), FileError> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            match pwrite(&self.fd, &buf[done..], at) {
                Ok(0) => {
                    return Err(FileError::ShortWrite {
                        file: self.name.clone(),
                        offset: at,
                        missing: buf.len() - done,
                    });
                }
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("Write", at, errno)),
            }
        }
        Ok(())
    }

    fn holes_from(&self) -> Result<Option<u64>, FileError> {
        let stat = fstat(&self.fd).map_err(|errno| self.failed("Status", 0, errno))?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(u64::try_from(stat.st_size).ok().filter(|_| regular))
    }

    fn set_len(&self, len: u64) -> Result<(), FileError> {
        ftruncate(&self.fd, len).map_err(|errno| self.failed("Setting the length", len, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_says_where() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        let engine = FdFile::new(file, "pages");
        let error = engine.read_at(&mut [0; 30], 80).unwrap_err();
        assert_eq!(
            error.to_string(),
            "File pages ends at byte 100, 10 bytes too early for this piece"
        );
        engine.read_at(&mut [1; 30], 70).unwrap();
    }

    #[test]
    fn no_space_is_an_error() {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let engine = FdFile::new(full, "full");
        assert_eq!(engine.holes_from().unwrap(), None);
        let error = engine.write_at(&[1; 10], 0).unwrap_err();
        assert!(matches!(
            error,
            FileError::Io {
                errno: Errno::NOSPC,
                ..
            }
        ));
    }
}
