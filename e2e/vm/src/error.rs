//! What can go wrong with a running machine, for callers that tell the cases apart
//! (`error.downcast_ref::<VmError>()`).

use std::time::Duration;

/// A machine that did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// The machine is gone: kernel panic, QEMU failed or was killed.
    #[error("Machine {name} is dead: {reason}; console:\n{console}")]
    Dead {
        /// Name of the machine.
        name: String,
        /// What is known of the cause.
        reason: String,
        /// Last lines of its console.
        console: String,
    },
    /// A command, or the machine as a whole, ran past its limit. The command was killed.
    #[error(
        "Machine {name}: {what} not done after {} s; output:\n{output}\nconsole:\n{console}",
        limit.as_secs()
    )]
    TimedOut {
        /// Name of the machine.
        name: String,
        /// First line of the command.
        what: String,
        /// The limit that was set.
        limit: Duration,
        /// Last lines of what it had printed.
        output: String,
        /// Last lines of the machine's console.
        console: String,
    },
    /// A command that had to succeed ended with another status than 0.
    #[error("Command failed with status {code}: {what}\n{output}")]
    Failed {
        /// Its exit status, 128 + n when signal n ended it.
        code: i32,
        /// First line of the command.
        what: String,
        /// Last lines of what it had printed.
        output: String,
    },
}

/// The last `lines` lines of `text`, without control characters but tab.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let kept = &all[all.len().saturating_sub(lines)..];
    let mut out: String = kept.join("\n");
    out.retain(|c| c == '\n' || c == '\t' || !c.is_control());
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn tail_keeps_the_end_and_no_escapes() {
        assert_eq!(super::tail("a\nb\r\n\x1b[1mc\n", 2), "b\n[1mc");
        assert_eq!(super::tail("", 2), "");
    }
}
