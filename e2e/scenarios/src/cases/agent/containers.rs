//! Containers of runc and of Podman, through the agent.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::tool::{Agent, case};
use crate::case::{Case, Lab};
use crate::cases::containers::COMMAND;
use crate::cases::round_trip::OTHER;
use crate::containers::{Bundle, Device, PluginForAll, Podman, Resident, Runc, Runtime, run};

pub(crate) const CASES: &[Case] = &[
    case("agent/a_container_of_runc_in_another_bundle", 480, runc),
    case("agent/a_container_of_podman_goes_on", 300, |lab| {
        podman(lab, Runtime::Crun)
    }),
];

const MACHINE: &str = "preset=gfx90a-2";
const ID: &str = "rocferry-job";

/// An overlay over the root file system of a bundle, as engines make it. Unmounted when dropped.
struct Overlay(PathBuf);

impl Overlay {
    fn over(root: &Path, scratch: &Path) -> Result<Self> {
        let (upper, work) = (scratch.join("upper"), scratch.join("work"));
        std::fs::create_dir_all(&upper)?;
        std::fs::create_dir_all(&work)?;
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            root.display(),
            upper.display(),
            work.display()
        );
        let root = root.to_owned();
        let at = root.to_str().context("a path")?;
        run(&["mount", "-t", "overlay", "overlay", "-o", &options, at])?.ok()?;
        Ok(Self(root))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        if let Some(path) = self.0.to_str() {
            let _ = run(&["umount", path]);
        }
    }
}

/// Deletes a container that the agent has restored, when dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = run(&["runc", "delete", "--force", ID]);
    }
}

/// It goes on after a dump and after one that fails; then it is stopped, and restored on another machine into a fresh
/// bundle, with what it had changed and deleted in its files.
fn runc(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let agent = Agent::new(lab)?;
    let given = Device::of_gpus(&lab.sim, &[0])?;
    let bundle = Bundle::new(&lab.folder("bundle")?, COMMAND, &given)?;
    let overlay = Overlay::over(&bundle.root(), &lab.folder("overlay")?)?;
    let container = Runc::start(ID, &bundle)?;
    let resident = Resident::in_root(container.pid()?, &bundle.root())?;
    let traces = resident.leave_traces()?;
    let checkpoint = |after| ["checkpoint", "--runtime", "runc", "--json", after, ID];

    lab.sim.fault("kfd.criu_op.checkpoint 1 ENOMEM")?;
    agent
        .run(&checkpoint("--stop"))?
        .is(2)?
        .says(&["CRIU_OP CHECKPOINT failed"])?;
    lab.sim.clear_faults()?;
    ensure!(container.status()? == "running", "{}", container.status()?);
    resident.is_as(&traces)?;
    ensure!(agent.listed()?.is_empty(), "{:?}", agent.listed()?);
    agent.run(&checkpoint("--leave-running"))?.is(0)?;
    resident.is_as(&traces)?;
    agent.is_idle()?;

    let report = agent.run(&checkpoint("--stop"))?.is(0)?.json()?;
    let id = report["id"].as_str().context("no id")?.to_owned();
    ensure!(!resident.workload.is_alive(), "it is not stopped");
    let again = ["restore", "--runtime", "runc", "--bundle", "/nowhere", &id];
    agent.run(&again)?.is(1)?.says(&["exists"])?;
    agent.is_idle()?;
    drop(resident);
    drop(container);
    drop(overlay);

    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    let there = agent.elsewhere(lab)?;
    let here = Device::of_gpus(&lab.sim, &[1])?;
    let bundle = Bundle::new(&lab.folder("bundle")?, COMMAND, &here)?;
    let path = bundle.root();
    let path = path.parent().and_then(Path::to_str).context("a path")?;
    let _restored = Restored;
    let words = [
        "restore",
        "--runtime",
        "runc",
        "--json",
        "--bundle",
        path,
        &id,
    ];
    lab.sim.fault("kfd.criu_op.restore 1 EINVAL")?;
    there.run(&words)?.is(2)?;
    lab.sim.clear_faults()?;
    there.is_idle()?;
    ensure!(
        !run(&["runc", "state", ID])?.good,
        "half a container is left"
    );
    let report = there.run(&words)?.is(0)?.json()?;
    let pid = i32::try_from(report["pid"].as_i64().context("no pid")?)?;
    let resident = Resident::in_root(pid, &bundle.root())?;
    resident.is_as(&traces)?;
    lab.no_stray_access()?;
    there.is_idle()?;
    resident.workload.finish()
}

/// It is found by its name, dumped by the runtime under Podman, and Podman still knows it.
fn podman(lab: &mut Lab, runtime: Runtime) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let _plugin = PluginForAll::install()?;
    let agent = Agent::new(lab)?;
    let podman = Podman::new(runtime, &lab.folder("podman")?)?;
    podman.start("gpu", &Device::of_gpus(&lab.sim, &[0, 1])?, COMMAND)?;
    let resident = Resident::new(podman.pid("gpu")?)?;
    let traces = resident.leave_traces()?;
    let program = podman.wrapper()?;
    let words = |after| {
        [
            "checkpoint",
            "--runtime",
            "podman",
            "--runtime-program",
            &program,
            "--json",
            after,
            "gpu",
        ]
    };
    let report = agent.run(&words("--leave-running"))?.is(0)?.json()?;
    resident.is_as(&traces)?;
    let id = report["id"].as_str().context("no id")?;
    let shown = agent.run(&["image", "inspect", "-o", "json", id])?.is(0)?;
    for word in [
        "rootfs-diff.tar",
        "devshm-checkpoint.tar",
        "config.dump",
        "spec.dump",
    ] {
        ensure!(shown.stdout.contains(word), "no {word}: {}", shown.stdout);
    }
    agent.run(&words("--keep-frozen"))?.is(0)?;
    let state = podman.inspect("gpu", "{{.State.Status}}")?;
    ensure!(agent.journal()?.len() == 1, "it is not held: {state}");
    agent.run(&["thaw", "--override", "gpu"])?.is(0)?;
    resident.is_as(&traces)?;
    agent.is_idle()?;
    lab.no_stray_access()?;
    podman.run(&["kill", "--signal", "TERM", "gpu"])?.ok()?;
    let status = podman.run(&["wait", "gpu"])?.ok()?;
    ensure!(status == "0", "the workload ended with {status}");
    Ok(())
}
