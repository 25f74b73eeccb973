//! A process that outlives CRIU. Tasks that CRIU still traces run on when it is killed; and when the runtime is, CRIU runs no
//! script at `pre-resume` and lets them go. Then whoever is to be held must die, at once and not when somebody has
//! noticed.

use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::cgroup::Cgroup;
use super::files::{Named, Note as _, Proof, Stage};
use super::tree::{kill, named};

/// Name under which this program is the guard.
pub(crate) const NAME: &str = "rocferry-guard";

/// Starts it, and waits until it watches. It stays in the caller's cgroup.
pub(super) fn start(
    folder: &Path,
    criu: Named,
    others: &[Named],
    container: &Cgroup,
) -> std::io::Result<()> {
    let watched = std::iter::once(&criu).chain(others);
    let mut guard = Command::new(std::env::current_exe()?)
        .arg0(NAME)
        .args([folder, container.path()])
        .args(watched.map(|process| format!("{}:{}", process.pid, process.started)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    let mut word = Vec::new();
    if let Some(output) = guard.stdout.take() {
        output.take(READY.len() as u64).read_to_end(&mut word)?;
    }
    match word == READY {
        true => Ok(()),
        false => Err(std::io::Error::other("it does not watch")),
    }
}

const READY: &[u8] = b"ready";

/// Watches, and kills what the first end has let go.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    let [folder, container, watched @ ..] = words else {
        return ExitCode::FAILURE;
    };
    let watched: Option<Vec<Named>> = watched.iter().map(|word| process(word)).collect();
    let Some(watched) = watched.filter(|watched| !watched.is_empty()) else {
        return ExitCode::FAILURE;
    };
    let Some(handles) = watched.iter().map(handle).collect::<Option<Vec<OwnedFd>>>() else {
        return ExitCode::FAILURE;
    };
    {
        let mut output = std::io::stdout().lock();
        let said = output.write_all(READY).and_then(|()| output.flush());
        if said.is_err() {
            return ExitCode::FAILURE;
        }
    }
    let mut fds: Vec<PollFd<'_>> = handles
        .iter()
        .map(|handle| PollFd::new(handle, PollFlags::IN))
        .collect();
    // Any other error counts as an end: better killed than let go.
    while poll(&mut fds, None) == Err(Errno::INTR) {}
    // Once frozen it may have been thawed by those whose right that is.
    let proof = Proof::read(Path::new(folder));
    if matches!(proof, Ok(Some(proof)) if proof.stage == Stage::Frozen) {
        return ExitCode::SUCCESS;
    }
    let killed = Cgroup::at(container).kill();
    if let Some(criu) = watched.first() {
        kill(*criu);
    }
    match killed {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// `PID:START`.
fn process(word: &OsStr) -> Option<Named> {
    let (pid, started) = word.to_str()?.split_once(':')?;
    Some(Named {
        pid: pid.parse().ok()?,
        started: started.parse().ok()?,
    })
}

/// A handle of a process that is still this one.
fn handle(process: &Named) -> Option<OwnedFd> {
    let pid = Pid::from_raw(process.pid)?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    (named(pid) == Some(*process)).then_some(handle)
}
