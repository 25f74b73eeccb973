//! Whether the threads of the images have a seccomp filter.

use rocferry_image::criu::{self, Seccomp};
use rocferry_image::{ImageDir, ImageError};

/// Looks at the threads of one process after the other, the first one first.
pub(super) struct Filters<'a> {
    dir: &'a dyn ImageDir,
    /// Read when the first thread has one.
    known: Option<criu::Filters>,
    /// The first thread's go to those of which the images say nothing.
    reach_all: bool,
}

impl<'a> Filters<'a> {
    pub(super) fn new(dir: &'a dyn ImageDir) -> Self {
        Self {
            dir,
            known: None,
            reach_all: false,
        }
    }

    /// Has the first thread of a process one?
    pub(super) fn first(&mut self, thread: Option<Seccomp>) -> Result<bool, ImageError> {
        self.reach_all = match thread {
            Some(Seccomp::Filter(number)) => self.known()?.reach_all_threads(number),
            Some(Seccomp::Strict) | None => false,
        };
        self.has(thread)
    }

    /// Has another thread of that process one?
    pub(super) fn other(&mut self, thread: Option<Seccomp>) -> Result<bool, ImageError> {
        Ok(self.reach_all || self.has(thread)?)
    }

    fn has(&mut self, thread: Option<Seccomp>) -> Result<bool, ImageError> {
        match thread {
            Some(Seccomp::Filter(number)) => Ok(self.known()?.has(number)),
            Some(Seccomp::Strict) => Ok(true),
            None => Ok(false),
        }
    }

    fn known(&mut self) -> Result<&criu::Filters, ImageError> {
        let known = match self.known.take() {
            Some(known) => known,
            None => criu::filters(self.dir)?,
        };
        Ok(self.known.insert(known))
    }
}
