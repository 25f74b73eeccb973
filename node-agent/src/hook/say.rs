//! Lines for people. Runtimes throw away what a hook prints unless it fails, so they go to the system's log too.

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;

const LOG: &str = "/dev/log";

/// Facility daemon, level error, as syslog counts them.
const PRIORITY: u32 = (3 << 3) | 3;

/// Says what went wrong. If nobody listens, so be it.
pub(super) fn error(text: &str) {
    let _ = writeln!(io::stderr().lock(), "rocferry-hook: {text}");
    let line = format!("<{PRIORITY}>rocferry-hook[{}]: {text}", std::process::id());
    if let Ok(socket) = UnixDatagram::unbound() {
        // A log that does not keep up must not keep the container waiting.
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to(line.as_bytes(), LOG);
    }
}
