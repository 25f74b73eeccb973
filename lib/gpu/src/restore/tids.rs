//! Helper threads in a restored task without stealing an application's thread id.
//!
//! A thread that is started here takes the next free pid of the restored pid namespace. Other tasks make
//! their own threads with the ids of the images at the same time, and would meet ours with EEXIST. So the
//! namespace's cursor is first moved above every id in the images.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};

use crate::host::{Host, log_at};

/// Handler that sets the cursor of the caller's pid namespace, relative to a /proc.
const CURSOR: &str = "sys/kernel/ns_last_pid";
/// How long a joined thread may take to leave the kernel's list.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

/// May this task start threads? Moves the cursor first; without it the copying is done by one thread.
pub(super) fn reserve(host: &dyn Host) -> bool {
    match move_cursor(host) {
        Ok(above) => {
            log_at!(host, Debug, "Helper threads take ids above {above}");
            true
        }
        Err(error) => {
            log_at!(
                host,
                Info,
                "No helper threads in this task ({error}): one thread reads and copies"
            );
            false
        }
    }
}

/// Waits until the joined helper threads are gone for the kernel as well.
pub(super) fn wait_until_alone(host: &dyn Host) {
    let begun = Instant::now();
    while thread_count(host).is_some_and(|count| count > 1) {
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

fn move_cursor(host: &dyn Host) -> io::Result<u32> {
    let highest = rocferry_image::highest_tid(host.images()).map_err(io::Error::other)?;
    let proc = host
        .criu_proc()
        .ok_or_else(|| io::Error::other("CRIU's /proc is not open"))?;
    let file = openat(proc, CURSOR, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut file = std::fs::File::from(file);
    let now: u32 = io::read_to_string(&file)?
        .trim()
        .parse()
        .map_err(io::Error::other)?;
    let above = highest.max(now);
    io::Seek::rewind(&mut file)?;
    file.write_all(above.to_string().as_bytes())?;
    Ok(above)
}

fn thread_count(host: &dyn Host) -> Option<usize> {
    let proc: BorrowedFd<'_> = host.criu_proc()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(proc, "self/task", flags, Mode::empty()).ok()?;
    let entries = rustix::fs::Dir::read_from(dir.as_fd()).ok()?;
    let numbered = entries.filter_map(Result::ok).filter(|entry| {
        entry
            .file_name()
            .to_bytes()
            .first()
            .is_some_and(u8::is_ascii_digit)
    });
    Some(numbered.count())
}
