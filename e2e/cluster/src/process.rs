//! A program that runs in the cluster's network.

use anyhow::{Context, Result, anyhow, bail};
use rocferry_vm::{Net, spawn};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a process is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// A running program. It is killed when this is dropped, and when we end.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; what it says goes to `log`, after what is there.
    pub(crate) fn start(net: &Net, name: &str, command: &Command, log: &Path) -> Result<Self> {
        let mut outer = net.command(command.get_program());
        outer.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            outer.current_dir(dir);
        }
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("Cannot open {}", log.display()))?;
        outer
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        Ok(Self {
            name: name.to_owned(),
            child: spawn(outer)?,
            log: log.to_path_buf(),
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file with what it says.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// What it said so far.
    #[must_use]
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How it ended; none while it runs.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it runs for longer than `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if begun.elapsed() > limit {
                bail!("{} runs for longer than {limit:?}", self.name);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, with SIGTERM.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Stops it where it is, until [`Self::resume`].
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| anyhow!("{} has no process id", self.name))?;
        kill_process(pid, signal).with_context(|| format!("{} gets no signal", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
