//! A process tree as it looks from outside: descriptors, threads, KFD contexts.
//!
//! The workload compares its own descriptors in depth. From outside there is one thing to see that it cannot
//! tell: what was there before it looked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::proc;

/// Looks taken in a row: what is open for a moment only (the state file) is not in all of them.
const LOOKS: u32 = 3;

/// All tasks of a tree, by their innermost pid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct View(BTreeMap<i32, Task>);

#[derive(Debug, PartialEq, Eq)]
struct Task {
    fds: BTreeSet<i32>,
    /// Innermost thread ids.
    threads: BTreeSet<i32>,
    /// Does KFD know it?
    kfd: bool,
}

impl View {
    /// The tree below `pid`, itself included.
    pub(crate) fn of(pid: i32) -> Result<Self> {
        let mut view = look(pid)?;
        for _ in 1..LOOKS {
            sleep(Duration::from_millis(7));
            let again = look(pid)?;
            view.0.retain(|pid, _| again.0.contains_key(pid));
            for (pid, task) in &mut view.0 {
                if let Some(seen) = again.0.get(pid) {
                    task.fds.retain(|fd| seen.fds.contains(fd));
                    task.threads.retain(|tid| seen.threads.contains(tid));
                }
            }
        }
        Ok(view)
    }

    /// For another machine.
    pub(crate) fn to_json(&self) -> Value {
        let tasks = self.0.iter().map(|(pid, task)| {
            json!({ "pid": pid, "fds": task.fds, "threads": task.threads, "kfd": task.kfd })
        });
        Value::Array(tasks.collect())
    }

    /// What [`Self::to_json`] has made.
    pub(crate) fn from_json(value: &Value) -> Result<Self> {
        let number =
            |value: &Value| i32::try_from(value.as_i64().context("no number")?).context("pid");
        let set = |value: &Value| -> Result<BTreeSet<i32>> {
            value
                .as_array()
                .context("no list")?
                .iter()
                .map(number)
                .collect()
        };
        let tasks = value.as_array().context("no tasks")?.iter().map(|task| {
            let kfd = task["kfd"].as_bool().context("kfd")?;
            let (fds, threads) = (set(&task["fds"])?, set(&task["threads"])?);
            Ok((number(&task["pid"])?, Task { fds, threads, kfd }))
        });
        Ok(Self(tasks.collect::<Result<_>>()?))
    }

    /// Processes with GPU state.
    pub(crate) fn gpu_processes(&self) -> u64 {
        self.0.values().filter(|task| task.kfd).count() as u64
    }

    /// Fails unless the tree looks as it did: the same pids, descriptors and threads.
    pub(crate) fn is_same_as(&self, before: &Self) -> Result<()> {
        let (pids, known): (Vec<_>, Vec<_>) = (
            self.0.keys().copied().collect(),
            before.0.keys().copied().collect(),
        );
        ensure!(
            pids == known,
            "the tree has the pids {pids:?}, it had {known:?}"
        );
        for ((pid, now), was) in self.0.iter().zip(before.0.values()) {
            if now.fds != was.fds {
                bail!(
                    "process {pid}: descriptors appeared {:?}, went {:?}",
                    now.fds.difference(&was.fds).collect::<Vec<_>>(),
                    was.fds.difference(&now.fds).collect::<Vec<_>>()
                );
            }
            if now.threads != was.threads {
                bail!(
                    "process {pid}: threads appeared {:?}, went {:?}",
                    now.threads.difference(&was.threads).collect::<Vec<_>>(),
                    was.threads.difference(&now.threads).collect::<Vec<_>>()
                );
            }
            ensure!(
                now.kfd == was.kfd,
                "process {pid}: KFD knows it: {}, did so before: {}",
                now.kfd,
                was.kfd
            );
        }
        Ok(())
    }
}

fn look(root: i32) -> Result<View> {
    let look_at = |pid: i32| {
        let inner = proc::innermost(&format!("/proc/{pid}/status"))?;
        let threads = proc::numbers(&format!("/proc/{pid}/task"))?;
        let threads = threads
            .into_iter()
            .filter_map(|tid| proc::innermost(&format!("/proc/{pid}/task/{tid}/status")));
        let task = Task {
            fds: proc::numbers(&format!("/proc/{pid}/fd"))?,
            threads: threads.collect(),
            kfd: fs::exists(format!("/sys/class/kfd/kfd/proc/{pid}")).unwrap_or(false),
        };
        Some((inner, task))
    };
    // A child that ends while one looks is no part of the picture.
    let tasks: BTreeMap<_, _> = proc::tree(root).into_iter().filter_map(look_at).collect();
    ensure!(!tasks.is_empty(), "process {root} is gone");
    Ok(View(tasks))
}
