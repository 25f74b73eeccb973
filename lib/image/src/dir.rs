//! Where images live.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr};

/// A place that holds image files by name: a directory, or CRIU's image streamer.
pub trait ImageDir {
    /// Creates a file for writing, empty even when it was there before.
    ///
    /// # Errors
    /// Any of the system calls.
    fn create(&self, name: &str) -> io::Result<OwnedFd>;

    /// Opens a file for reading; `None` when there is none of that name.
    ///
    /// The descriptor may be a pipe: read it from front to back, and take lengths from the content.
    ///
    /// # Errors
    /// Any of the system calls, except that the file does not exist.
    fn open(&self, name: &str) -> io::Result<Option<OwnedFd>>;

    /// The names of all files, in no order; `None` where they cannot be listed (a stream).
    ///
    /// # Errors
    /// Any of the system calls.
    fn list(&self) -> io::Result<Option<Vec<String>>>;

    /// Do the files come as a stream? Then each can be opened once, in any order but one at a time:
    /// criu-image-streamer writes a file to its end before it takes the next request, and gives up when
    /// the reader of one goes away before its end.
    fn is_stream(&self) -> bool {
        false
    }
}

/// A directory that is open already: CRIU's image directory (`criu_get_image_dir`), borrowed or owned.
#[derive(Debug)]
pub struct FdDir<Fd>(pub Fd);

impl<Fd: AsFd> ImageDir for FdDir<Fd> {
    fn create(&self, name: &str) -> io::Result<OwnedFd> {
        // Without O_TRUNC the tail of an older, longer file would stay.
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::TRUNC
            | OFlags::CLOEXEC
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(retry_on_intr(|| openat(&self.0, name, flags, mode))?)
    }

    fn open(&self, name: &str) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        match retry_on_intr(|| openat(&self.0, name, flags, Mode::empty())) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self) -> io::Result<Option<Vec<String>>> {
        let mut names = Vec::new();
        // `read_from` opens the directory anew, so that the position of the shared file stays.
        for entry in Dir::read_from(&self.0)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(Some(names))
    }
}
