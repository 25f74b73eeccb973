//! A child that does not outlive its parent.
//!
//! Whoever loses patience with us kills us, and us alone. The runtime would then go on with a restore that nobody knows
//! of any more, beside the next one. So it is started through this program, which asks the kernel to be killed with its
//! parent and then becomes the runtime: the wish survives `exec`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use super::error::WrapperError;

/// Name under which this program is to be the leash.
pub(crate) const NAME: &str = "rocferry-leash";

/// `program` with these arguments, on a leash. To be started by the thread that lives longest, the main one: it is the
/// thread's end that counts.
pub(crate) fn command(program: &Path, words: &[OsString]) -> Result<Command, WrapperError> {
    let own = std::env::current_exe().map_err(WrapperError::file("find", "/proc/self/exe"))?;
    let mut command = Command::new(own);
    command
        .arg0(NAME)
        .arg(getpid().as_raw_nonzero().to_string())
        .arg(program)
        .args(words);
    Ok(command)
}

/// Becomes the program behind the leash's own arguments. Returns only if that fails.
pub(crate) fn become_it(words: &[OsString]) -> String {
    let [parent, program, words @ ..] = words else {
        return "too few arguments".to_owned();
    };
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return format!("cannot be tied to its parent: {errno}");
    }
    // It may have gone before that.
    let parent = parent.to_str().and_then(|parent| parent.parse().ok());
    if getppid() != parent.and_then(Pid::from_raw) {
        return "its parent has gone".to_owned();
    }
    let program: &OsStr = program;
    let error = Command::new(program).args(words).exec();
    format!("cannot start {}: {error}", program.display())
}
