//! Processes that may use some of the machine's GPUs only: a device cgroup grants the others to nobody in
//! it (F12), while CRIU, outside, sees all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::round_trip::{OTHER, SMALL};
use crate::case::{Case, Lab, On};
use crate::proc;
use crate::sim::Sim;
use crate::workload::Workload;

const fn case(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s: 60,
        run,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("subset/one_of_four", |lab| subset(lab, &[2], &[1])),
    case("subset/two_of_four", |lab| subset(lab, &[0, 3], &[1, 2])),
    case("subset/more_than_dumped_is_refused", more_is_refused),
    case("subset/fewer_than_dumped_is_refused", fewer_is_refused),
];

const MACHINE: &str = "preset=gfx90a-4";

/// Dump with these GPUs of four, restore with those of another machine.
pub(super) fn subset(lab: &mut Lab, before: &[u64], after: &[u64]) -> Result<()> {
    let (cgroup, mut workload) = start(lab, before)?;
    let seen = workload.number("gpus_seen")?;
    ensure!(
        seen == before.len() as u64,
        "the workload sees {seen} GPUs of {}",
        before.len()
    );
    let dump = lab.dump_with(&workload, &["--manage-cgroups"])?;
    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    cgroup.grant(&lab.sim, after)?;
    lab.restore_with(&mut workload, &dump, &["--manage-cgroups"])?;
    ensure!(
        cgroup.holds(workload.pid)?,
        "CRIU has left the process outside of its cgroup"
    );
    workload.prove()?;
    workload.advances()?;
    lab.no_stray_access()?;
    workload.finish()
}

/// The kernel wants as many GPUs as there were; the message says both numbers.
fn more_is_refused(lab: &mut Lab) -> Result<()> {
    refused(lab, &[1], &[1, 3], &["holds 1 GPU", "2 are usable"])
}

fn fewer_is_refused(lab: &mut Lab) -> Result<()> {
    refused(lab, &[0, 1, 3], &[0, 1], &["holds 3 GPU", "2 are usable"])
}

fn refused(lab: &mut Lab, before: &[u64], after: &[u64], words: &[&str]) -> Result<()> {
    let (cgroup, workload) = start(lab, before)?;
    let dump = lab.dump_with(&workload, &["--manage-cgroups"])?;
    cgroup.grant(&lab.sim, after)?;
    let (ended, _) = lab.criu.try_restore(&dump.images, &["--manage-cgroups"])?;
    ended.refused(words)?;
    proc::wait_reaped(workload.pid)?;
    // Nothing is lost: with the GPUs that it had, the same images come back.
    cgroup.grant(&lab.sim, before)?;
    let mut workload = workload;
    lab.restore_with(&mut workload, &dump, &["--manage-cgroups"])?;
    workload.prove()?;
    workload.finish()
}

fn start(lab: &mut Lab, gpus: &[u64]) -> Result<(DeviceCgroup, Workload)> {
    lab.sim.load(MACHINE)?;
    let cgroup = DeviceCgroup::new(&lab.dir)?;
    cgroup.grant(&lab.sim, gpus)?;
    let workload = cgroup.workload(lab, SMALL)?;
    Ok((cgroup, workload))
}

/// A cgroup of the devices controller (version 1), removed when dropped.
pub(super) struct DeviceCgroup {
    mount: PathBuf,
    path: PathBuf,
}

impl DeviceCgroup {
    pub(super) fn new(dir: &Path) -> Result<Self> {
        let mount = dir.join("devices");
        fs::create_dir_all(&mount)?;
        let status = Command::new("mount")
            .args(["-t", "cgroup", "-o", "devices", "devices"])
            .arg(&mount)
            .status()?;
        ensure!(status.success(), "cannot mount the devices controller");
        let path = mount.join("gpus");
        let cgroup = Self { mount, path };
        fs::create_dir_all(&cgroup.path)?;
        Ok(cgroup)
    }

    /// Grants these GPUs, by their place among the nodes, and no other.
    pub(super) fn grant(&self, sim: &Sim, gpus: &[u64]) -> Result<()> {
        // All at once: with many GPUs the file is long.
        let counters = sim.counters()?;
        let number = |name: &str| counters.get(name).copied().context("a counter is missing");
        for gpu in 0..number("gpus")? {
            let minor = number(&format!("gpu{gpu}.render_minor"))?;
            let file = if gpus.contains(&gpu) {
                "devices.allow"
            } else {
                "devices.deny"
            };
            fs::write(self.path.join(file), format!("c 226:{minor} rwm"))
                .with_context(|| format!("cannot write {file}"))?;
        }
        Ok(())
    }

    /// Starts the workload in it.
    pub(super) fn workload(&self, lab: &mut Lab, args: &[&str]) -> Result<Workload> {
        let enter = format!(
            "echo $$ > {}/cgroup.procs && exec \"$@\"",
            self.path.display()
        );
        lab.workload_under(&["sh", "-c", &enter, "sh"], args)
    }

    pub(super) fn holds(&self, pid: i32) -> Result<bool> {
        let pids = fs::read_to_string(self.path.join("cgroup.procs"))?;
        Ok(pids.lines().any(|line| line.parse() == Ok(pid)))
    }
}

impl Drop for DeviceCgroup {
    fn drop(&mut self) {
        // What a failed case has left in it would keep the hierarchy for the cases after it.
        let pids = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines().filter_map(|line| line.parse().ok()) {
            let _ = proc::kill_tree(pid);
        }
        let _ = fs::remove_dir(&self.path);
        let _ = Command::new("umount").arg(&self.mount).status();
    }
}
