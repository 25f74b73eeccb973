//! One at a time for each ticket.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::Errno;

use super::error::TicketError;

/// Keeps everybody else from working with a ticket. Ends with the process at the latest.
#[derive(Debug)]
pub struct TicketLock {
    _file: File,
}

impl TicketLock {
    /// Takes the lock, or says that somebody has it.
    pub(crate) fn take(path: &Path) -> Result<Self, TicketError> {
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = open(path, flags, Mode::RUSR | Mode::WUSR)
                .map_err(TicketError::file("open", path))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(TicketError::Busy {
                        path: path.to_owned(),
                    });
                }
                Err(errno) => return Err(TicketError::file("lock", path)(errno)),
            }
            // Removed with its ticket between opening and locking: the next one locks another file.
            let stat = fstat(&file).map_err(TicketError::file("look at", path))?;
            if stat.st_nlink > 0 {
                return Ok(Self { _file: file.into() });
            }
        }
    }
}
