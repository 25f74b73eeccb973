//! runc alone, on one machine and on another with other GPUs, device nodes and device numbers.

use anyhow::{Result, ensure};

use super::super::round_trip::OTHER;
use super::{COMMAND, case};
use crate::case::{Case, Lab};
use crate::containers::{Bundle, Device, PluginForAll, Resident, Runc, Traces, run};

pub(crate) const CASES: &[Case] = &[case("containers/runc_on_other_gpus", on_other_gpus)];

const MACHINE: &str = "preset=gfx90a-4";

/// Two GPUs of four, restored where they were, and then on a machine where the nodes of the container's two
/// GPUs have other names, and /dev/kfd another number. The container's own /dev comes out of the dump and
/// knows nothing of them.
fn on_other_gpus(lab: &mut Lab) -> Result<()> {
    lab.sim.load(MACHINE)?;
    let _plugin = PluginForAll::install()?;
    let given = Device::of_gpus(&lab.sim, &[0, 3])?;
    let bundle = Bundle::new(&lab.folder("bundle")?, COMMAND, &given)?;
    let container = Runc::start("rocferry-runc", &bundle)?;
    let resident = Resident::in_root(container.pid()?, &bundle.root())?;
    let seen = resident.workload.number("gpus_seen")?;
    ensure!(seen == 2, "the container sees {seen} GPUs of 4, not 2");

    let traces = resident.leave_traces()?;
    let place = (&container, &bundle);
    let resident = there_and_back(lab, place, resident, &traces, |_| Ok(()))?;
    let resident = there_and_back(lab, place, resident, &traces, |lab| {
        lab.sim.unload()?;
        // Takes the number that /dev/kfd would get.
        run(&["modprobe", "uio"])?.ok()?;
        lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
        let here = Device::of_gpus(&lab.sim, &[1, 2])?;
        ensure!(
            given.iter().all(|old| here
                .iter()
                .all(|new| (old.major, old.minor) != (new.major, new.minor))),
            "the machines have a device number in common: {given:?} and {here:?}"
        );
        bundle.write(COMMAND, &here)
    })?;
    let seen = resident.workload.number("gpus_seen")?;
    ensure!(seen == 2, "the container sees {seen} GPUs of 4, not 2");
    resident.workload.finish()?;
    drop(container);
    lab.sim.unload()?;
    run(&["modprobe", "-r", "uio"])?.ok().map(drop)
}

/// A dump, what happens to the machine then, a restore, the proof.
fn there_and_back(
    lab: &mut Lab,
    (container, bundle): (&Runc, &Bundle),
    resident: Resident,
    traces: &Traces,
    between: impl FnOnce(&mut Lab) -> Result<()>,
) -> Result<Resident> {
    let images = lab.folder("images")?;
    lab.sim.reset_counters()?;
    container.checkpoint(&images, &[])?.ok()?;
    drop(resident);
    lab.calls_were(&[
        ("process_info", traces.gpu_processes),
        ("unpause", traces.gpu_processes),
    ])?;
    lab.no_stray_access()?;
    between(lab)?;
    lab.sim.reset_counters()?;
    container.restore(&images, bundle)?;
    lab.calls_were(&[("resume", traces.gpu_processes)])?;
    let resident = Resident::in_root(container.pid()?, &bundle.root())?;
    resident.is_as(traces)?;
    lab.no_stray_access()?;
    Ok(resident)
}
