//! Helper threads in a restored task without stealing an application's thread id.
//!
//! A thread that is started here takes the next free pid of the restored pid namespace. Other tasks make
//! their own threads with the ids of the images at the same time, and would meet ours with EEXIST. So the
//! namespace's cursor is first moved above every id in the images.

use std::io::{self, Write as _};

use rustix::fs::{Mode, OFlags, openat};

use crate::host::{Host, log_at};

/// Handler that sets the cursor of the caller's pid namespace, relative to a /proc.
const CURSOR: &str = "sys/kernel/ns_last_pid";

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

fn move_cursor(host: &dyn Host) -> io::Result<i64> {
    let highest = rocferry_image::highest_tid(host.images()).map_err(io::Error::other)?;
    let proc = host
        .criu_proc()
        .ok_or_else(|| io::Error::other("CRIU's /proc is not open"))?;
    let file = openat(proc, CURSOR, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut file = std::fs::File::from(file);
    // A pid namespace in which every id was chosen, as CRIU makes one, says -1.
    let now: i64 = io::read_to_string(&file)?
        .trim()
        .parse()
        .map_err(io::Error::other)?;
    let above = i64::from(highest).max(now);
    io::Seek::rewind(&mut file)?;
    file.write_all(above.to_string().as_bytes())?;
    Ok(above)
}
