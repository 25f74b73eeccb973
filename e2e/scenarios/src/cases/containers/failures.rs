//! Dumps that fail: the container goes on, and the user is told.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{COMMAND, case};
use crate::case::{Case, Lab};
use crate::containers::{
    Bundle, Device, PluginForAll, Podman, Resident, Runc, Runtime, Traces, plugin_lines,
};

pub(crate) const CASES: &[Case] = &[case("containers/failed_dump", failed_dump)];

/// The kernel refuses; so does the plugin, and CRIU, and the runtime, and the engine.
const FAULT: &str = "kfd.criu_op.checkpoint 1 ENOMEM";

/// What CRIU's log has to say then.
const REASON: &[&str] = &["CRIU_OP CHECKPOINT failed", "Cannot allocate memory"];

fn failed_dump(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let _plugin = PluginForAll::install()?;
    let given = Device::of_gpus(&lab.sim, &[0, 1])?;
    runc(lab, &given).context("runc")?;
    podman(lab, &given).context("Podman")
}

fn runc(lab: &mut Lab, given: &[Device]) -> Result<()> {
    let bundle = Bundle::new(&lab.folder("bundle")?, COMMAND, given)?;
    let container = Runc::start("rocferry-runc", &bundle)?;
    let resident = Resident::in_root(container.pid()?, &bundle.root())?;
    let traces = resident.leave_traces()?;
    let images = lab.folder("images")?;
    lab.sim.fault(FAULT)?;
    let said = container.checkpoint(&images, &[])?.failed()?;
    lab.sim.clear_faults()?;
    tells_the_reason(&said)?;
    ensure!(
        container.status()? == "running",
        "runc says that it is {}",
        container.status()?
    );
    goes_on(lab, &resident, &traces)?;
    resident.workload.finish()
}

fn podman(lab: &mut Lab, given: &[Device]) -> Result<()> {
    let scratch = lab.folder("podman")?;
    let podman = Podman::new(Runtime::Crun, &scratch)?;
    podman.start("gpu", given, COMMAND)?;
    let resident = Resident::new(podman.pid("gpu")?)?;
    let traces = resident.leave_traces()?;
    let archive = scratch.join("archive.tar");
    lab.sim.fault(FAULT)?;
    let said = podman
        .checkpoint(
            "gpu",
            &[
                "--compress",
                "none",
                "--export",
                archive.to_str().unwrap_or_default(),
            ],
        )?
        .failed()?;
    lab.sim.clear_faults()?;
    tells_the_reason(&said)?;
    let status = podman.inspect("gpu", "{{.State.Status}}")?;
    ensure!(status == "running", "Podman says that it is {status}");
    ensure!(!archive.exists(), "a failed checkpoint has left an archive");
    goes_on(lab, &resident, &traces)
}

fn goes_on(lab: &Lab, resident: &Resident, traces: &Traces) -> Result<()> {
    resident.is_as(traces)?;
    lab.no_stray_access()
}

/// runc quotes CRIU's log, crun names it.
fn tells_the_reason(said: &str) -> Result<()> {
    let words = said.split([' ', '`', '"', '\'', '\n', ':', ',']);
    let log = words
        .map(|word| word.trim_end_matches('.'))
        .find(|word| word.ends_with(".log"));
    let lines = log.map(|log| plugin_lines(Path::new(log)));
    let told = format!("{said}\n{}", lines.unwrap_or_default());
    for reason in REASON {
        ensure!(told.contains(reason), "{reason:?} is not in: {told}");
    }
    Ok(())
}
