//! A running CRIU.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process, pidfd_open, prlimit,
};
use tokio::process::{Child, Command};

use super::{Invocation, RuntimeError};
use crate::process;

/// How much of the end of a log is looked at, in bytes.
const TAIL: u64 = 256 << 10;
/// Lines of it that go into an error.
const LINES: usize = 12;

/// How long CRIU may take to enter what it dumps. One that fails while it does so may wait for ever for code of its own that
/// has not come to run; later it undoes everything.
pub(crate) const ENTERING: Duration = Duration::from_secs(10);

/// How a command can be made to give up, so that the container goes on unharmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// CRIU itself, which ignores SIGXFSZ: with a limit of 0 on the size of files its next write fails, and it undoes
    /// what it did. Killed, it would leave threads with code of its own in them, and GPU queues stopped.
    Limit,
    /// A runtime that runs CRIU: it is killed, and CRIU fails when it next has something to tell it.
    Runtime,
}

/// A command that runs CRIU.
#[derive(Debug)]
pub struct Job {
    what: &'static str,
    child: Child,
    log: PathBuf,
    said: PathBuf,
    cancel: Cancel,
    begun: Instant,
    /// Folder of the images: who still works on it has not ended.
    images: PathBuf,
    /// CRIU did not end by itself.
    killed: bool,
}

impl Job {
    /// Starts it. `what` is `Dump` or `Restore`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        what: &'static str,
        invocation: Invocation,
        images: &Path,
    ) -> Result<Self, RuntimeError> {
        let said = invocation.log.with_extension("said");
        let to = File::create(&said).map_err(RuntimeError::file("write", &said))?;
        let also = to.try_clone().map_err(RuntimeError::file("write", &said))?;
        Self::spawn(what, invocation, images, said, (to.into(), also.into()))
    }

    /// Starts one whose output is what the container's will be: nothing of it is kept. `said`: where its own words are.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_apart(
        what: &'static str,
        invocation: Invocation,
        images: &Path,
        said: PathBuf,
    ) -> Result<Self, RuntimeError> {
        let nowhere = (Stdio::null(), Stdio::null());
        Self::spawn(what, invocation, images, said, nowhere)
    }

    fn spawn(
        what: &'static str,
        invocation: Invocation,
        images: &Path,
        said: PathBuf,
        (to, also): (Stdio, Stdio),
    ) -> Result<Self, RuntimeError> {
        let Invocation {
            mut command,
            log,
            cancel,
        } = invocation;
        let program = command.get_program().to_string_lossy().into_owned();
        // A group of its own: an interrupt from the terminal is for us, who can stop CRIU without harm.
        command
            .stdin(Stdio::null())
            .stdout(to)
            .stderr(also)
            .process_group(0);
        let child = Command::from(command)
            .spawn()
            .map_err(|source| RuntimeError::Program { program, source })?;
        Ok(Self {
            what,
            child,
            log,
            said,
            cancel,
            begun: Instant::now(),
            images: images.to_owned(),
            killed: false,
        })
    }

    /// Waits for it.
    ///
    /// # Errors
    /// It failed: with the end of the log.
    pub async fn wait(&mut self) -> Result<(), RuntimeError> {
        let status = self.child.wait().await;
        let status = status.map_err(|source| RuntimeError::Program {
            program: self.what.to_owned(),
            source,
        })?;
        if status.success() {
            return Ok(());
        }
        self.killed |= match self.cancel {
            Cancel::Limit => status.signal().is_some(),
            // The runtime ends in good order also when its CRIU did not, whose last words are then missing.
            Cancel::Runtime => !end_of_file(&self.log).contains("FAILED"),
        };
        Err(self.failed(status))
    }

    /// Has CRIU been killed? It has undone nothing then.
    #[must_use]
    pub const fn was_killed(&self) -> bool {
        self.killed
    }

    /// Are these words in the end of CRIU's log?
    #[must_use]
    pub fn log_has(&self, words: &str) -> bool {
        end_of_file(&self.log).contains(words)
    }

    /// Makes it give up, and returns when nobody works on the images any more. One that does not give up within
    /// `limit` is killed.
    pub async fn cancel(&mut self, limit: Duration) {
        let workers = process::users_of(&self.images);
        match self.cancel {
            Cancel::Limit => {
                let left = ENTERING.saturating_sub(self.begun.elapsed());
                if tokio::time::timeout(left, self.child.wait()).await.is_err() {
                    give_up(self.child.id());
                }
            }
            Cancel::Runtime => {
                if let Err(error) = self.child.start_kill() {
                    tracing::warn!(%error, "Cannot stop the runtime");
                }
            }
        }
        let (child, others) = tokio::join!(
            tokio::time::timeout(limit, self.child.wait()),
            end_of(workers.clone(), limit)
        );
        if child.is_ok() && others {
            return;
        }
        tracing::error!(
            what = self.what,
            seconds = limit.as_secs(),
            "CRIU does not give up and is killed"
        );
        self.killed = true;
        for pid in &workers {
            kill(*pid);
        }
        let _ = self.child.kill().await;
        end_of(workers, limit).await;
    }

    fn failed(&self, status: ExitStatus) -> RuntimeError {
        RuntimeError::Failed {
            what: self.what,
            how: status.to_string(),
            tail: tail(&self.log, &self.said),
        }
    }
}

/// Makes a CRIU that was started by [`super::Criu::command`] fail at its next write.
pub(crate) fn give_up(pid: Option<u32>) {
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let Some(pid) = pid else { return };
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // It may have ended.
    let _ = prlimit(Some(pid), Resource::Fsize, none);
}

pub(crate) fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Waits until these have ended, for some time; true if they have.
pub(crate) async fn end_of(pids: Vec<u32>, limit: Duration) -> bool {
    let waiting = tokio::task::spawn_blocking(move || all_ended(&pids, limit));
    waiting.await.unwrap_or(false)
}

/// The same, where nothing else waits meanwhile.
pub(crate) fn all_ended(pids: &[u32], limit: Duration) -> bool {
    let begun = Instant::now();
    pids.iter()
        .all(|pid| has_ended(*pid, limit.saturating_sub(begun.elapsed())))
}

fn has_ended(pid: u32, limit: Duration) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return true;
    };
    // Readable once it has ended; not to be had when it is gone.
    let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let begun = Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// What a log says about a failure: errors and the plugin's lines, else its last lines, else what the program said.
pub(crate) fn tail(log: &Path, said: &Path) -> String {
    let text = end_of_file(log);
    let matters = |line: &&str| line.contains("Error") || line.contains("amdgpu_plugin: ");
    let mut lines: Vec<&str> = text.lines().filter(matters).collect();
    if lines.is_empty() {
        lines = text.lines().collect();
    }
    let said = end_of_file(said);
    if lines.is_empty() {
        lines = said.lines().collect();
    }
    let from = lines.len().saturating_sub(LINES);
    let lines: Vec<String> = lines
        .get(from..)
        .unwrap_or_default()
        .iter()
        .map(|line| line.trim().chars().filter(|c| !c.is_control()).collect())
        .collect();
    match lines.is_empty() {
        true => format!("nothing was said, and there is no log at {}", log.display()),
        false => lines.join(" | "),
    }
}

fn end_of_file(path: &Path) -> String {
    let mut bytes = Vec::new();
    let mut read = || -> std::io::Result<()> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(())
    };
    match read() {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Criu;

    /// A program in CRIU's place that writes until it cannot, and then says that it has tidied up.
    fn writer(dir: &Path) -> Criu {
        use std::os::unix::fs::PermissionsExt;
        let program = dir.join("writer");
        let text = "#!/bin/sh\nwhile echo x >>\"$3/image\"; do :; done 2>/dev/null\necho tidy >&2\nexit 7\n";
        std::fs::write(&program, text).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("ours");
        Criu {
            program,
            plugins: None,
        }
    }

    #[tokio::test]
    async fn a_cancelled_criu_fails_by_itself() {
        let dir = tempfile::tempdir().expect("a folder");
        let images = dir.path().join("images");
        std::fs::create_dir(&images).expect("made");
        let criu = writer(dir.path());
        let log = dir.path().join("dump.log");
        let invocation = Invocation {
            command: criu.command("dump", &images, dir.path(), "dump.log", ""),
            log,
            cancel: Cancel::Limit,
        };
        let mut job = Job::start("Dump", invocation, &images).expect("started");
        let image = images.join("image");
        while !image.exists() {
            tokio::task::yield_now().await;
        }
        job.cancel(Duration::from_secs(60)).await;
        let error = job.wait().await.expect_err("it failed").to_string();
        // Its output goes to a file too, so that it cannot say so there.
        assert!(error.contains("exit status: 7"), "{error}");
    }

    #[test]
    fn of_a_log_the_errors_count() {
        let dir = tempfile::tempdir().expect("a folder");
        let (log, said) = (dir.path().join("log"), dir.path().join("said"));
        assert!(tail(&log, &said).contains("no log"));
        std::fs::write(&said, "cannot find it\n").expect("written");
        assert_eq!(tail(&log, &said), "cannot find it");
        let text = "(0.1) a\n(0.2) Error (x.c:1): b\n(0.3) c\n(0.4) amdgpu_plugin: d\u{1b}\n";
        std::fs::write(&log, text).expect("written");
        let wanted = "(0.2) Error (x.c:1): b | (0.4) amdgpu_plugin: d";
        assert_eq!(tail(&log, &said), wanted);
    }
}
