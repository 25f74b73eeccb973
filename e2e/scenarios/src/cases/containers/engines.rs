//! Podman with each of its runtimes, and containerd, by their own commands.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{COMMAND, case};
use crate::case::{Case, Lab};
use crate::containers::{Containerd, Device, PluginForAll, Podman, Resident, Runtime, run};

pub(crate) const CASES: &[Case] = &[
    case("containers/podman_crun", |lab| podman(lab, Runtime::Crun)),
    case("containers/podman_runc", |lab| podman(lab, Runtime::Runc)),
    case("containers/ctr", ctr),
    case("containers/without_gpus", without_gpus),
];

const MACHINE: &str = "preset=gfx90a-2";

/// The same render nodes, with other GPUs behind them. Podman restores a container with the devices that its
/// archive names.
const SWAPPED: &str = "renumber=7 reverse_minors=1";

/// Exported while it goes on, exported again, restored by another engine on another machine.
fn podman(lab: &mut Lab, runtime: Runtime) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let _plugin = PluginForAll::install()?;
    let scratch = lab.folder("podman")?;
    let archive = scratch.join("archive.tar");
    let archive = archive.to_str().unwrap_or_default();
    let here = Podman::new(runtime, &scratch)?;
    here.start("gpu", &Device::of_gpus(&lab.sim, &[0, 1])?, COMMAND)?;
    let resident = Resident::new(here.pid("gpu")?)?;
    let traces = resident.leave_traces()?;

    here.checkpoint(
        "gpu",
        &["--leave-running", "--compress", "none", "--export", archive],
    )?
    .ok()?;
    ensure!(
        here.pid("gpu")? == resident.workload.pid,
        "it does not go on as the process that it was"
    );
    resident.is_as(&traces)?;

    here.checkpoint("gpu", &["--compress", "none", "--export", archive])?
        .ok()?;
    drop(resident);
    drop(here);
    lab.sim.load(&format!("{MACHINE} {SWAPPED}"))?;
    let there = Podman::new(runtime, &scratch)?;
    there.restore(&["--import", archive])?.ok()?;
    let resident = Resident::new(there.pid("gpu")?)?;
    resident.is_as(&traces)?;
    lab.no_stray_access()?;
    end_of(&there, &resident)
}

/// The workload frees everything and says by its exit status whether that worked.
fn end_of(podman: &Podman, resident: &Resident) -> Result<()> {
    podman.run(&["kill", "--signal", "TERM", "gpu"])?.ok()?;
    let status = podman.run(&["wait", "gpu"])?.ok()?;
    ensure!(status == "0", "the workload ended with {status}");
    ensure!(!resident.workload.is_alive(), "it has not ended");
    Ok(())
}

/// `ctr` keeps checkpoints as images, and restores them with the devices that the container had.
fn ctr(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let _plugin = PluginForAll::install()?;
    let scratch = lab.folder("containerd")?;
    let image = Podman::save_image(&scratch)?;
    let containerd = Containerd::start(&scratch)?;
    containerd
        .ctr(&[
            "image",
            "import",
            "--local",
            image.to_str().unwrap_or_default(),
        ])?
        .ok()?;
    let devices = Device::of_gpus(&lab.sim, &[0, 1])?;
    containerd.run(Podman::IMAGE, "gpu", &devices, COMMAND)?;
    let resident = Resident::new(containerd.pid("gpu")?)?;
    let traces = resident.leave_traces()?;
    let checkpoint = "localhost/checkpoint:1";
    containerd
        .ctr(&[
            "container",
            "checkpoint",
            "--rw",
            "--image",
            "--task",
            "gpu",
            checkpoint,
        ])?
        .ok()?;
    drop(resident);
    containerd.remove("gpu")?;
    lab.sim.load(&format!("{MACHINE} {SWAPPED}"))?;
    containerd
        .ctr(&["container", "restore", "--rw", "--live", "gpu", checkpoint])?
        .ok()?;
    let resident = Resident::new(containerd.pid("gpu")?)?;
    resident.is_as(&traces)?;
    lab.no_stray_access()
}

/// The plugin and the driver are there, and the container has no GPU: it is dumped as without them. Restored where
/// there is no driver.
fn without_gpus(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let _plugin = PluginForAll::install()?;
    let scratch = lab.folder("podman")?;
    let archive = scratch.join("archive.tar");
    let archive = archive.to_str().unwrap_or_default();
    let podman = Podman::new(Runtime::Crun, &scratch)?;
    podman.start("plain", &[], &["/bin/sh", "-c", COUNTING])?;
    counts_on_from(&podman, 0)?;
    let known = count(&podman)?;
    podman
        .checkpoint("plain", &["--compress", "none", "--export", archive])?
        .ok()?;
    podman.remove("plain")?;
    let list = run(&["tar", "-tf", archive])?.ok()?;
    ensure!(
        !list.contains("amdgpu") && !list.contains("rocferry"),
        "the plugin has left something in the archive: {list}"
    );
    lab.sim.unload()?;
    podman.restore(&["--import", archive])?.ok()?;
    counts_on_from(&podman, known)
}

/// A program that counts in a file, and forks nothing meanwhile: CRIU may meet a child that the kernel has not put into its
/// parent's cgroup yet. Nobody writes into the pipe; reading it takes a second.
const COUNTING: &str = "busybox mkfifo /work/pipe; exec 3<>/work/pipe; n=0; \
    while :; do n=$((n+1)); echo $n >/work/n; read -t 1 nothing <&3; done";

fn count(podman: &Podman) -> Result<u64> {
    let file = format!("/proc/{}/root/work/n", podman.pid("plain")?);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    Ok(text.trim().parse().unwrap_or(0))
}

/// It neither stands still nor begins anew.
fn counts_on_from(podman: &Podman, known: u64) -> Result<()> {
    let begun = Instant::now();
    loop {
        let now = count(podman)?;
        if now > known {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(20),
            "the container counts {now}, and counted {known} before"
        );
    }
}
