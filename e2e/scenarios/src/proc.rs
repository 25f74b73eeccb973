//! Processes of the machine.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

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
        let status = format!("/proc/{pid}/status");
        if command.contains("/workload")
            && command.contains(state)
            && innermost(&status) == Some(own)
        {
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

/// A process and all its descendants.
pub(crate) fn tree(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        for tid in numbers(&format!("/proc/{pid}/task")).unwrap_or_default() {
            let path = format!("/proc/{pid}/task/{tid}/children");
            let children = fs::read_to_string(path).unwrap_or_default();
            let pids = children
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok());
            found.extend(pids);
        }
        at += 1;
    }
    found
}

/// Kills a process and all its descendants, and waits until none of them is left, not even as a zombie.
pub(crate) fn kill_tree(root: i32) -> Result<()> {
    let tree = tree(root);
    for pid in tree.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    for pid in tree {
        wait_reaped(pid)?;
    }
    Ok(())
}

/// Waits until a pid is free again: only then can a restore take it.
pub(crate) fn wait_reaped(pid: i32) -> Result<()> {
    let begun = Instant::now();
    while fs::exists(format!("/proc/{pid}"))? {
        ensure!(
            begun.elapsed() < Duration::from_secs(10),
            "process {pid} does not go"
        );
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The entries of a folder of `/proc` that are numbers.
pub(crate) fn numbers(folder: &str) -> Option<BTreeSet<i32>> {
    let entries = fs::read_dir(folder).ok()?;
    let number =
        |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Some(entries.filter_map(number).collect())
}

/// The id that a process or thread has in its innermost pid namespace, by its `status` file.
pub(crate) fn innermost(status: &str) -> Option<i32> {
    let status = fs::read_to_string(status).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}
