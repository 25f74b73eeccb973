//! Child processes that never outlive us, however we end.
//!
//! The kernel can send a signal to a process when its parent dies (prctl `PR_SET_PDEATHSIG`); the
//! `setpriv` tool sets it, so no unsafe code is needed here. Two traps: the signal comes when the *thread*
//! that made the child ends, so all children are made by one thread that never does; and a parent that died
//! before the setting took effect is noticed by comparing the parent's process id afterwards.

use anyhow::{Context, Result, anyhow};
use std::ffi::OsStr;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A command that is killed with SIGKILL when this process ends.
pub(crate) fn leashed(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "/bin/sh", "-c"]);
    command.arg(format!(
        "[ \"$PPID\" = {} ] || exit 125; exec \"$@\"",
        std::process::id()
    ));
    command.arg("leash").arg(program);
    command
}

/// Like [`leashed`], in a process namespace of its own: with `program` all of its descendants end, and
/// what it mounts is gone with them. `map_root` makes the caller root inside (a user namespace).
/// It gets a session of its own, since mmdebstrap signals its whole process group when it ends: ours,
/// and that of the shell that started us, if they were in it.
pub(crate) fn contained(program: impl AsRef<OsStr>, map_root: bool) -> Command {
    let mut command = leashed("unshare");
    if map_root {
        command.args(["--user", "--map-root-user"]);
    }
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--mount-proc",
        "--",
    ]);
    command.arg("setsid").arg(program);
    command
}

type Request = (Command, Sender<std::io::Result<Child>>);

/// Starts `command` from a thread that lives as long as the process. A command that is killed with whoever made it
/// (those of [`crate::Net::command`]) would else end with the thread that started it.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(command: Command) -> Result<Child> {
    static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (send, requests): (Sender<Request>, Receiver<Request>) = channel();
        std::thread::spawn(move || {
            while let Ok((mut command, answer)) = requests.recv() {
                // A caller that went away meanwhile needs no answer.
                let _ = answer.send(command.spawn());
            }
        });
        send
    });
    let what = format!("{command:?}");
    let (send, answer) = channel();
    spawner
        .send((command, send))
        .map_err(|_| anyhow!("No thread to start processes"))?;
    answer
        .recv()?
        .with_context(|| format!("Cannot start {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let mut child = std::thread::spawn(|| {
            let mut c = leashed("sleep");
            c.arg("0.3");
            spawn(c).unwrap()
        })
        .join()
        .unwrap();
        assert!(child.wait().unwrap().success());
    }
}
