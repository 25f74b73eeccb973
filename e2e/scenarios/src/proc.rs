//! Processes of the machine.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Is there a process with this pid that is no zombie?
pub(crate) fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.starts_with(" Z"))
    })
}

/// Waits until a process is gone.
pub(crate) fn wait_gone(pid: i32, limit: Duration) -> bool {
    let begun = Instant::now();
    while is_alive(pid) {
        if begun.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Waits for a child in the background, so that it leaves no zombie.
pub(crate) fn reap_later(mut child: Child) {
    thread::spawn(move || child.wait());
}

/// Runs a command to its end, or kills it after `limit`.
pub(crate) fn run_limited(command: &mut Command, limit: Duration) -> Result<ExitStatus> {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            // Shown as ended by SIGALRM: no result of the command's own.
            return Ok(ExitStatus::from_raw(14));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The pid, as this namespace sees it, of the workload whose state file this is.
pub(crate) fn host_pid(values: &HashMap<String, String>, state: &Path) -> Result<i32> {
    let own: i32 = values
        .get("pid")
        .context("no pid in the state file")?
        .parse()?;
    let state = state.to_str().context("path")?;
    for (pid, command) in all()? {
        if command.contains("/workload") && command.contains(state) && innermost(pid) == Some(own) {
            return Ok(pid);
        }
    }
    ensure!(is_alive(own), "the workload {own} is gone");
    Ok(own)
}

/// Every process: pid and command line (words separated by spaces).
pub(crate) fn all() -> Result<Vec<(i32, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Ok(words) = fs::read(format!("/proc/{pid}/cmdline")) {
            found.push((pid, String::from_utf8_lossy(&words).replace('\0', " ")));
        }
    }
    Ok(found)
}

fn innermost(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}
