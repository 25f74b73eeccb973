//! Helper threads that have been joined are not gone yet.
//!
//! A joined thread lives on in the kernel for a moment, and shares the working directory with the others
//! until its end. CRIU enters mount namespaces, which the kernel refuses (EINVAL) to whoever shares that; and
//! a restored task must have the threads of the images and no other.

use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::host::{Host, log_at};

/// How long a joined thread may take to leave the kernel's list.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

/// Threads of this process that the kernel lists; `None` when there is no `/proc` to ask.
pub(crate) fn count(host: &dyn Host) -> Option<usize> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // A restored task reaches CRIU's /proc only; in CRIU itself the usual one is as good.
    let dir = match host.criu_proc() {
        Some(proc) => openat(proc, "self/task", flags, Mode::empty()),
        None => openat(CWD, "/proc/self/task", flags, Mode::empty()),
    };
    let entries = rustix::fs::Dir::read_from(dir.ok()?.as_fd()).ok()?;
    let numbered = entries.filter_map(Result::ok).filter(|entry| {
        entry
            .file_name()
            .to_bytes()
            .first()
            .is_some_and(u8::is_ascii_digit)
    });
    Some(numbered.count())
}

/// Waits until no more threads are listed than these: until those that were joined since are gone.
pub(crate) fn wait_until(host: &dyn Host, before: Option<usize>) {
    let Some(before) = before else { return };
    let begun = Instant::now();
    while count(host).is_some_and(|count| count > before) {
        if begun.elapsed() > EXIT_PATIENCE {
            log_at!(
                host,
                Warn,
                "A helper thread is still there {} s after it ended",
                EXIT_PATIENCE.as_secs()
            );
            return;
        }
        sleep(Duration::from_millis(1));
    }
}
