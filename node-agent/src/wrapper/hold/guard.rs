//! A process that outlives CRIU. Tasks that CRIU still traces run on when it is killed: then whoever is to be held must die, at
//! once and not when the runtime has noticed.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::cgroup::Cgroup;
use super::files::{Note as _, Proof, Stage};

/// Name under which this program is the guard.
pub(crate) const NAME: &str = "rocferry-guard";

/// Starts it, and waits until it watches. It stays in the caller's cgroup.
pub(super) fn start(folder: &Path, criu: Pid, container: &Cgroup) -> std::io::Result<()> {
    let mut guard = Command::new(std::env::current_exe()?)
        .arg0(NAME)
        .args([folder, container.path()])
        .arg(criu.as_raw_nonzero().to_string())
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

/// Watches CRIU, and kills what its end has let go.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    let [folder, container, criu] = words else {
        return ExitCode::FAILURE;
    };
    let criu = criu.to_str().and_then(|pid| pid.parse().ok());
    let criu = criu.and_then(Pid::from_raw);
    let Some(Ok(criu)) = criu.map(|criu| pidfd_open(criu, PidfdFlags::empty())) else {
        return ExitCode::FAILURE;
    };
    {
        let mut output = std::io::stdout().lock();
        let said = output.write_all(READY).and_then(|()| output.flush());
        if said.is_err() {
            return ExitCode::FAILURE;
        }
    }
    loop {
        match poll(&mut [PollFd::new(&criu, PollFlags::IN)], None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            // As if it had ended: better killed than let go.
            Err(_) => break,
        }
    }
    let container = Cgroup::at(container);
    let held =
        matches!(Proof::read(Path::new(folder)), Ok(Some(proof)) if proof.stage == Stage::Frozen);
    // Once frozen it may have been thawed by those whose right that is.
    match held || container.kill().is_ok() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
