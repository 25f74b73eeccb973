//! Progress lines on standard error, and commands whose output goes to a log unless they fail.

use crate::error::tail;
use crate::leash;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a step that takes long says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Where a piece of work says how far it is.
#[derive(Debug, Clone)]
pub struct Progress {
    room: &'static str,
    what: String,
    log: PathBuf,
}

impl Progress {
    /// `room` is the bracketed prefix, `what` names the work, `log` takes the commands' output.
    pub(crate) fn new(room: &'static str, what: impl Into<String>, log: PathBuf) -> Self {
        Self {
            room,
            what: what.into(),
            log,
        }
    }

    /// Prints one line.
    pub fn say(&self, text: &str) {
        eprintln!("[{}] {}: {text}", self.room, self.what);
    }

    /// Runs `work` between a line with what it does and one with the time it took.
    pub(crate) fn step<T>(&self, doing: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.say(&format!("{doing} ..."));
        let begun = Instant::now();
        let done = work()?;
        self.say(&format!(
            "{doing} ... {:.0} s",
            begun.elapsed().as_secs_f64()
        ));
        Ok(done)
    }

    /// Runs a command to its end; its output goes to the log, whose last lines are in the error.
    pub(crate) fn run(&self, doing: &str, mut command: Command) -> Result<()> {
        let log = self.log_file()?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut child = leash::spawn(command)?;
        let status = self.wait(doing, &mut child)?;
        self.check(doing, status)
    }

    /// Runs `from | to`; both have to succeed.
    pub(crate) fn pipe(&self, doing: &str, mut from: Command, mut to: Command) -> Result<()> {
        let log = self.log_file()?;
        from.stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?);
        let mut first = leash::spawn(from)?;
        let pipe = first.stdout.take().context("No pipe")?;
        to.stdin(pipe).stdout(log.try_clone()?).stderr(log);
        let mut second = leash::spawn(to)?;
        let end = self.wait(doing, &mut first)?;
        let second_end = self.wait(doing, &mut second)?;
        self.check(doing, end)?;
        self.check(doing, second_end)
    }

    fn log_file(&self) -> Result<File> {
        File::options()
            .append(true)
            .create(true)
            .open(&self.log)
            .with_context(|| format!("Cannot open {}", self.log.display()))
    }

    fn wait(&self, doing: &str, child: &mut Child) -> Result<ExitStatus> {
        let begun = Instant::now();
        let mut next = HEARTBEAT;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(50));
            if begun.elapsed() >= next {
                self.say(&format!("{doing}, still at it after {} s", next.as_secs()));
                next += HEARTBEAT;
            }
        }
    }

    fn check(&self, doing: &str, status: ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        bail!(
            "{}: {doing} failed ({status}); {}",
            self.what,
            log_tail(&self.log)
        )
    }
}

fn log_tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    format!("last lines of {}:\n{}", log.display(), tail(&text, 30))
}
