//! The GPU process that is dumped and restored (`e2e/workload`).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::case::BIN;
use crate::proc;

/// A running workload. Killed when dropped.
pub(crate) struct Workload {
    /// Its pid.
    pub(crate) pid: i32,
    state: PathBuf,
}

impl Workload {
    /// Starts it in a session of its own, without a terminal, and waits until it is ready. `wrapper` runs
    /// it: nothing, or `unshare …`, a shell that changes the cgroup, …
    pub(crate) fn start_under(state: &Path, wrapper: &[&str], args: &[&str]) -> Result<Self> {
        let log = fs::File::create(state.with_extension("log"))?;
        let program = format!("{BIN}/workload");
        let mut words = vec!["setsid"];
        words.extend(wrapper);
        words.push(&program);
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .arg("--state")
            .arg(state)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .current_dir("/")
            .spawn()
            .context("cannot start the workload")?;
        let begun = Instant::now();
        loop {
            let values = read_state(state).unwrap_or_default();
            match values.get("phase").map(String::as_str) {
                Some("ready") => {
                    proc::reap_later(child);
                    let pid = proc::host_pid(&values, state)?;
                    return Ok(Self {
                        pid,
                        state: state.to_owned(),
                    });
                }
                Some("failed") => bail!("the workload failed to start: {}", log_tail(state)),
                _ => {}
            }
            if let Some(status) = child.try_wait()? {
                bail!("the workload ended ({status}): {}", log_tail(state));
            }
            ensure!(
                begun.elapsed() < Duration::from_secs(120),
                "the workload is not ready after 120 s: {}",
                log_tail(state)
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// One that something else has started: its pid, and its state file as seen from here. Waits until it is
    /// ready.
    pub(crate) fn running(pid: i32, state: &Path) -> Result<Self> {
        let workload = Self {
            pid,
            state: state.to_owned(),
        };
        let begun = Instant::now();
        loop {
            let values = read_state(state).unwrap_or_default();
            match values.get("phase").map(String::as_str) {
                Some("ready") => return Ok(workload),
                Some("failed") => bail!("the workload failed to start: {values:?}"),
                _ => {}
            }
            ensure!(
                workload.is_alive() && begun.elapsed() < Duration::from_secs(120),
                "the workload ended or is not ready after 120 s: {values:?}"
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// A workload that CRIU has restored: same state file, the pid that it has now.
    pub(crate) fn restored(&self, pid: i32) -> Self {
        Self {
            pid,
            state: self.state.clone(),
        }
    }

    /// The GPU process that `--child gpu` has made: a workload with contents and a state file of its own.
    pub(crate) fn child(&self) -> Result<Self> {
        let pid = proc::tree(self.pid).get(1).copied();
        Ok(Self {
            pid: pid.context("the workload has no child")?,
            state: append(&self.state, ".child"),
        })
    }

    /// Values of the state file now.
    pub(crate) fn values(&self) -> Result<HashMap<String, String>> {
        read_state(&self.state)
    }

    /// A number of the state file.
    pub(crate) fn number(&self, name: &str) -> Result<u64> {
        let values = self.values()?;
        let text = values
            .get(name)
            .with_context(|| format!("no {name} in the state file"))?;
        text.parse().with_context(|| format!("{name} is {text:?}"))
    }

    /// Is the process there, and not a zombie?
    pub(crate) fn is_alive(&self) -> bool {
        proc::is_alive(self.pid)
    }

    /// Full proof of everything it holds: bytes, handles, events, queues, mappings, descriptors.
    pub(crate) fn prove(&self) -> Result<()> {
        let (good, text) = self.verdict()?;
        ensure!(good, "the proof failed:\n{text}");
        Ok(())
    }

    /// The same proof: what it finds wrong, one line each.
    pub(crate) fn findings(&self) -> Result<Vec<String>> {
        let (good, text) = self.verdict()?;
        wrong(good, &text)
    }

    /// Runs the proof: is all well, and what it says.
    fn verdict(&self) -> Result<(bool, String)> {
        let verdict = append(&self.state, ".verify");
        let _ = fs::remove_file(&verdict);
        signal(self.pid, Signal::USR1)?;
        let begun = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(&verdict) {
                return Ok((text.lines().next() == Some("ok"), text));
            }
            ensure!(
                self.is_alive(),
                "the workload died during its proof: {}",
                log_tail(&self.state)
            );
            ensure!(
                begun.elapsed() < Duration::from_secs(240),
                "no verdict after 240 s"
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// Does it go on: iterations and, where it has queues, their packets advance?
    pub(crate) fn advances(&self) -> Result<()> {
        let begun = Instant::now();
        let queues = self.number("queues")?;
        let (iterations, packets) = (self.number("iterations")?, self.number("packets_done")?);
        loop {
            let now = (self.number("iterations")?, self.number("packets_done")?);
            if now.0 > iterations && (now.1 > packets || queues == 0) {
                return Ok(());
            }
            ensure!(
                self.is_alive(),
                "the workload died: {}",
                log_tail(&self.state)
            );
            ensure!(
                begun.elapsed() < Duration::from_secs(20),
                "no progress in 20 s: iterations {iterations} -> {}, packets {packets} -> {}",
                now.0,
                now.1
            );
            sleep(Duration::from_millis(50));
        }
    }

    /// Ends it in good order: it frees everything through ioctls and says whether all of them worked.
    pub(crate) fn finish(self) -> Result<()> {
        let text = self.end()?;
        ensure!(
            text.starts_with("ok"),
            "the workload could not free everything:\n{text}"
        );
        Ok(())
    }

    /// The same end: what went wrong there or at any time before, one line each.
    pub(crate) fn finish_findings(self) -> Result<Vec<String>> {
        let text = self.end()?;
        wrong(text.starts_with("ok"), &text)
    }

    /// Ends it and returns its account.
    fn end(self) -> Result<String> {
        let verdict = append(&self.state, ".exit");
        let _ = fs::remove_file(&verdict);
        signal(self.pid, Signal::TERM)?;
        let begun = Instant::now();
        while self.is_alive() {
            ensure!(
                begun.elapsed() < Duration::from_secs(60),
                "the workload does not end"
            );
            sleep(Duration::from_millis(20));
        }
        fs::read_to_string(&verdict).context("the workload left no account of its end")
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        if self.is_alive() {
            let _ = signal(self.pid, Signal::KILL);
            proc::wait_gone(self.pid, Duration::from_secs(10));
        }
    }
}

/// The failures in an account, all of them.
fn wrong(good: bool, text: &str) -> Result<Vec<String>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("fail: "));
    let found: Vec<_> = lines.map(str::to_owned).collect();
    ensure!(
        good == found.is_empty() && !text.contains("more findings left out"),
        "the account is not complete:\n{text}"
    );
    Ok(found)
}

fn append(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn read_state(path: &Path) -> Result<HashMap<String, String>> {
    let text = fs::read_to_string(path)?;
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect())
}

fn log_tail(state: &Path) -> String {
    let text = fs::read_to_string(state.with_extension("log")).unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(8).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

fn signal(pid: i32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid).context("no pid")?;
    kill_process(pid, signal).with_context(|| format!("cannot signal {}", pid.as_raw_nonzero()))
}
