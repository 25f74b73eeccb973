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

/// Limit of pids in the caller's pid namespace, relative to a /proc.
const LIMIT: &str = "sys/kernel/pid_max";
/// More ids than the helper threads of a restore take.
const ROOM: i64 = 4096;

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
    let limit = openat(proc, LIMIT, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let limit: i64 = io::read_to_string(std::fs::File::from(limit))?
        .trim()
        .parse()
        .map_err(io::Error::other)?;
    let file = openat(proc, CURSOR, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut file = std::fs::File::from(file);
    // A pid namespace in which every id was chosen, as CRIU makes one, says -1.
    let now: i64 = io::read_to_string(&file)?
        .trim()
        .parse()
        .map_err(io::Error::other)?;
    let above = place(i64::from(highest), now, limit)
        .ok_or_else(|| io::Error::other("no thread ids are free above those of the images"))?;
    io::Seek::rewind(&mut file)?;
    file.write_all(above.to_string().as_bytes())?;
    Ok(above)
}

/// Where the cursor goes: above every id of the images, `highest`, and not back if that can be helped. At the
/// limit the kernel begins again with the low ids, which may be those that are still to be restored.
fn place(highest: i64, now: i64, limit: i64) -> Option<i64> {
    let last = limit - ROOM;
    let place = if now > last {
        highest
    } else {
        highest.max(now)
    };
    (place <= last).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn the_cursor_leaves_room_below_the_limit() {
        assert_eq!(place(30, 200, 32768), Some(200));
        assert_eq!(place(300, -1, 32768), Some(300));
        // Ids that are in use are passed over, so going back takes none away.
        assert_eq!(place(300, 32760, 32768), Some(300));
        assert_eq!(place(32760, 200, 32768), None);
        assert_eq!(place(32760, 32767, 32768), None);
        assert_eq!(place(1, 1, 301), None);
    }
}
