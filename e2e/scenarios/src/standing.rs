//! Dumps and restores that have to fail, and what has to hold after them.
//!
//! After a failed dump the process goes on as if nothing had been: its queues run, it is evicted as often as
//! before, it holds the descriptors that it held, one UNPAUSE was sent for each PROCESS_INFO that succeeded,
//! and the next dump works. After a failed restore nothing is left: no process, no GPU state.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::case::Lab;
use crate::criu::Ended;
use crate::proc;
use crate::view::View;
use crate::workload::Workload;

/// What KFD and /proc say of a tree.
struct Standing {
    view: View,
    /// Of each process: is it paused, and how often is it evicted on each GPU.
    evictions: Vec<String>,
}

impl Standing {
    fn of(lab: &Lab, workload: &Workload) -> Result<Self> {
        let tree = proc::tree(workload.pid);
        let matters = |word: &&str| {
            ["pid=", "paused=", "blocked=", "evicted_bos="]
                .iter()
                .any(|name| word.starts_with(name))
                || word.contains("evicted=")
        };
        let processes = lab.sim.processes()?;
        let evictions = processes
            .lines()
            .filter(|line| {
                tree.iter()
                    .any(|pid| line.starts_with(&format!("pid={pid} ")))
            })
            .map(|line| {
                let words = line
                    .split_ascii_whitespace()
                    .filter(matters)
                    .map(without_queues);
                words.collect::<Vec<_>>().join(" ")
            });
        Ok(Self {
            view: View::of(workload.pid)?,
            evictions: evictions.collect(),
        })
    }

    fn is_same_as(&self, before: &Self) -> Result<()> {
        ensure!(
            self.evictions == before.evictions,
            "KFD says {:?}, said {:?} before",
            self.evictions,
            before.evictions
        );
        self.view.is_same_as(&before.view)
    }
}

/// `gpu=…,user=…,vm=…,evicted=…` without the number of queues after it.
fn without_queues(word: &str) -> &str {
    word.split(",queues=").next().unwrap_or(word)
}

/// The process-wide calls of a failing dump.
#[derive(Clone, Copy)]
pub(crate) enum Calls {
    /// One PROCESS_INFO and one UNPAUSE for each of so many processes.
    Each(u64),
    /// PROCESS_INFO has failed: the kernel has let the queues run again itself, and UNPAUSE is an error.
    NotPaused,
    /// As many of one as of the other.
    Balanced,
}

impl Lab {
    /// A dump into a new folder that must fail with all of `words` in its log, and must leave no trace.
    pub(crate) fn failing_dump(
        &mut self,
        workload: &Workload,
        args: &[&str],
        words: &[&str],
        calls: Calls,
    ) -> Result<Ended> {
        let images = self.folder("failed")?;
        self.failing_dump_into(workload, &images, args, words, calls)
    }

    /// As [`Self::failing_dump`], into this folder.
    pub(crate) fn failing_dump_into(
        &mut self,
        workload: &Workload,
        images: &Path,
        args: &[&str],
        words: &[&str],
        calls: Calls,
    ) -> Result<Ended> {
        let before = Standing::of(self, workload)?;
        self.sim.reset_counters()?;
        let ended = self.criu.dump(workload.pid, images, args)?.refused(words)?;
        let story = ended.story();
        self.stands(workload, &before, calls).context(story)?;
        Ok(ended)
    }

    fn stands(&self, workload: &Workload, before: &Standing, calls: Calls) -> Result<()> {
        let paused = match calls {
            Calls::Each(processes) => processes,
            Calls::NotPaused => 0,
            Calls::Balanced => self.sim.counter("process_info")?,
        };
        self.calls_were(&[("process_info", paused), ("unpause", paused)])?;
        self.no_stray_access()?;
        Standing::of(self, workload)?.is_same_as(before)?;
        workload.advances()
    }

    /// Dump and restore where it is: the process comes out of it alive, whatever was tried before.
    pub(crate) fn again(&mut self, workload: &mut Workload) -> Result<()> {
        self.sim.clear_faults()?;
        let dump = self.dump(workload).context("the next dump")?;
        self.restore(workload, &dump).context("the next restore")?;
        workload.advances()
    }

    /// A restore that must fail with all of `words` in its log, and must leave nothing behind.
    pub(crate) fn failing_restore(
        &self,
        images: &Path,
        pid: i32,
        args: &[&str],
        words: &[&str],
    ) -> Result<Ended> {
        let (ended, _) = self.criu.try_restore(images, args)?;
        let ended = ended.refused(words)?;
        let story = ended.story();
        self.nothing_left(pid).context(story)?;
        Ok(ended)
    }

    /// Fails when there is a process with this pid, or one that KFD knows, or when a GPU has gone astray.
    pub(crate) fn nothing_left(&self, pid: i32) -> Result<()> {
        self.nobody_left(pid)?;
        self.no_stray_access()
    }

    /// Fails when there is a process with this pid, or one that KFD knows.
    pub(crate) fn nobody_left(&self, pid: i32) -> Result<()> {
        proc::wait_reaped(pid)?;
        let begun = Instant::now();
        loop {
            let processes = self.sim.processes()?;
            if !processes.lines().any(|line| line.starts_with("pid=")) {
                return Ok(());
            }
            // The state of a killed process goes a moment after it.
            ensure!(
                begun.elapsed() < Duration::from_secs(10),
                "KFD still knows: {processes}"
            );
            sleep(Duration::from_millis(20));
        }
    }
}
