//! What the hooks need from the CRIU that runs them.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rocferry_image::ImageDir;

/// CRIU's log levels (`criu/include/log.h`: LOG_ERROR 1 .. LOG_DEBUG 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum LogLevel {
    /// The operation fails because of this.
    Error = 1,
    /// Worth a look; the operation goes on.
    Warn = 2,
    /// What was done, a line per step.
    Info = 3,
    /// Timing and detail.
    Debug = 4,
}

/// Number under which CRIU's fdstore keeps an open file. Valid in CRIU and in every task that it restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdStoreId(pub i32);

/// The CRIU process (or restored task) that a hook runs in.
///
/// Only ever used from the thread that runs the hook: CRIU's log has a static buffer, and its service
/// descriptors belong to the process.
pub trait Host {
    /// Writes one line to CRIU's log.
    fn log(&self, level: LogLevel, line: fmt::Arguments<'_>);
    /// Is this level printed at all? Saves the work of building debug lines.
    fn logs(&self, level: LogLevel) -> bool;
    /// The images of this dump or restore: a directory, or CRIU's image streamer.
    fn images(&self) -> &dyn ImageDir;
    /// Puts an open file into CRIU's fdstore; the caller's number stays open.
    ///
    /// # Errors
    /// CRIU refused it (its log has the reason).
    fn fdstore_add(&self, fd: BorrowedFd<'_>) -> io::Result<FdStoreId>;
    /// A fresh number, at the lowest free place, for a file in the fdstore.
    ///
    /// # Errors
    /// CRIU could not hand it out.
    fn fdstore_get(&self, id: FdStoreId) -> io::Result<OwnedFd>;
    /// Names the plugin in the image's inventory, once (CRIU 4.1 and later; a no-op before).
    fn claim_inventory(&self);
    /// CRIU's own `/proc`, which a restored task can still reach (`CR_PROC_FD_OFF` of `servicefd.h`).
    fn criu_proc(&self) -> Option<BorrowedFd<'_>>;
    /// Does CRIU keep and later close the descriptor of `UPDATE_VMA_MAP` itself (3.19 and later), or
    /// duplicate it and leave ours open (3.17, 3.18)?
    fn takes_over_vma_fd(&self) -> bool;
}

/// Logs at a level with `format!` arguments.
macro_rules! log_at {
    ($host:expr, $level:ident, $($arg:tt)+) => {
        $host.log($crate::host::LogLevel::$level, format_args!($($arg)+))
    };
}
pub(crate) use log_at;
