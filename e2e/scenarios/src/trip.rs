//! A dump and a restore, with all that has to hold around every one of them.
//!
//! One PROCESS_INFO, one UNPAUSE and one RESUME per GPU process; no GPU access outside a mapping; a result
//! file that says that all is well; as many descriptors and threads in the tree as before.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::case::Lab;
use crate::criu::Ended;
use crate::proc;
use crate::view::View;
use crate::workload::Workload;

/// A finished dump.
pub(crate) struct Dump {
    /// The folder of images.
    pub(crate) images: PathBuf,
    /// What CRIU said.
    pub(crate) ended: Ended,
    /// The tree before.
    view: View,
}

impl Dump {
    /// Has the dump met the workload while it wrote its state file? Then only the first restore finds that
    /// file again, since the workload renames it.
    pub(crate) fn caught_a_writer(&self) -> bool {
        self.ended.log.contains(".tmp]") || self.ended.log.contains(".tmp ")
    }
}

impl Lab {
    /// Dumps the workload and ends it.
    pub(crate) fn dump(&mut self, workload: &Workload) -> Result<Dump> {
        self.dump_with(workload, &[])
    }

    /// As [`Self::dump`], with further arguments for CRIU.
    pub(crate) fn dump_with(&mut self, workload: &Workload, args: &[&str]) -> Result<Dump> {
        let images = self.folder("images")?;
        self.dump_into(workload, images, args)
    }

    /// As [`Self::dump_with`], into a folder that is there already.
    pub(crate) fn dump_into(
        &mut self,
        workload: &Workload,
        images: PathBuf,
        args: &[&str],
    ) -> Result<Dump> {
        let view = View::of(workload.pid)?;
        self.sim.reset_counters()?;
        let ended = self.criu.dump(workload.pid, &images, args)?.ok()?;
        self.calls_were(&[
            ("process_info", view.gpu_processes()),
            ("unpause", view.gpu_processes()),
        ])?;
        self.no_stray_access()?;
        if !args.contains(&"--leave-running") {
            proc::wait_reaped(workload.pid)?;
        }
        Ok(Dump {
            images,
            ended,
            view,
        })
    }

    /// Restores a dumped workload, which then goes on under the pid that it has now.
    pub(crate) fn restore(&self, workload: &mut Workload, dump: &Dump) -> Result<Ended> {
        self.restore_with(workload, dump, &[])
    }

    /// As [`Self::restore`], with further arguments for CRIU.
    pub(crate) fn restore_with(
        &self,
        workload: &mut Workload,
        dump: &Dump,
        args: &[&str],
    ) -> Result<Ended> {
        self.sim.reset_counters()?;
        let (ended, pid) = self.criu.try_restore(&dump.images, args)?;
        let ended = ended.ok()?;
        workload.pid = pid.context("CRIU wrote no pid file")?;
        self.calls_were(&[
            ("process_info", 0),
            ("resume", dump.view.gpu_processes()),
            ("unpause", 0),
        ])?;
        self.no_stray_access()?;
        let work = args.iter().position(|word| *word == "-W");
        let work = work.and_then(|at| args.get(at + 1)).map(Path::new);
        all_resumed(work.unwrap_or(&dump.images), dump.view.gpu_processes())?;
        View::of(workload.pid)?.is_same_as(&dump.view)?;
        Ok(ended)
    }

    /// Dump, restore (on another machine when one is given), full proof.
    pub(crate) fn round_trip(
        &mut self,
        workload: &mut Workload,
        machine: Option<&str>,
    ) -> Result<()> {
        let dump = self.dump(workload)?;
        if let Some(machine) = machine {
            self.sim.load(machine)?;
        }
        self.restore(workload, &dump)?;
        workload.prove()?;
        workload.advances()?;
        self.no_stray_access()
    }

    /// Fails unless the counters have these values.
    pub(crate) fn calls_were(&self, wanted: &[(&str, u64)]) -> Result<()> {
        for (name, wanted) in wanted {
            let calls = self.sim.counter(name)?;
            ensure!(
                calls == *wanted,
                "the simulator counts {calls} {name}, not {wanted}"
            );
        }
        Ok(())
    }

    /// Fails when a GPU has touched a byte outside of a mapping, or the driver would have crashed.
    pub(crate) fn no_stray_access(&self) -> Result<()> {
        self.calls_were(&[
            ("gpu*.fault_unmapped", 0),
            ("gpu*.fault_overrun", 0),
            ("would_oops", 0),
            ("warnings", 0),
        ])
    }
}

/// Fails unless the result file tells of this many processes, and nothing but success.
pub(crate) fn all_resumed(work_dir: &Path, processes: u64) -> Result<()> {
    let path = work_dir.join("rocferry-result.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let result: serde_json::Value = serde_json::from_str(&text)?;
    ensure!(result["version"] == 1, "another version: {text}");
    let tasks = result["tasks"].as_array().context("no tasks")?;
    ensure!(
        tasks.len() as u64 == processes,
        "the result file tells of {} tasks, not {processes}: {text}",
        tasks.len()
    );
    let good = |task: &serde_json::Value| {
        task["restored"] == true && task["contents"] == true && task["resume"] == "ok"
    };
    ensure!(tasks.iter().all(good), "a task is not well: {text}");
    Ok(())
}
