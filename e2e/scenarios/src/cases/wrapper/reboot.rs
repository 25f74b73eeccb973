//! A machine that loses its power while a container is held: it runs nothing after the next start, and is restored held
//! again, or not made.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::tool::{Container, Taken, Wrapper, folder_of};
use crate::case::Lab;
use crate::cases::agent::tool::nobody_runs;
use crate::containers::{Bundle, Device, PluginForAll, Resident};

/// A disk that outlives the machine.
pub(crate) const DISK: &str = "/data";

/// What the second half has to know.
const KEPT: &str = "/data/kept.json";

const MACHINE: &str = "preset=gfx90a-2";

/// Until the power goes.
pub(crate) fn before(lab: &mut Lab) -> Result<()> {
    let (plugin, wrapper) = (PluginForAll::install()?, Wrapper::new(lab)?);
    lab.sim.load(MACHINE)?;
    let given = Device::of_gpus(&lab.sim, &[0])?;
    let taken = Taken::new(lab, &wrapper, &given)?;
    let kept = json!({
        "images": taken.images, "bundle": taken.bundle.path(), "folder": wrapper.folder(), "iterations": taken.iterations(),
    });
    fs::write(KEPT, kept.to_string())?;
    wrapper.ticket("id_held", &taken.images, &json!({}))?;
    // From here on the wrapper has to see to it itself that what it writes is there.
    rustix::fs::sync();
    let container = Container("held");
    wrapper.create(container.0, &taken.bundle)?;
    wrapper.ok(&["start", container.0])?;
    ensure!(
        container.status()? == "paused",
        "it is {}",
        container.status()?
    );
    taken.has_not_run()?;
    std::mem::forget((container, plugin));
    Ok(())
}

/// In the machine that is started again.
pub(crate) fn after(lab: &mut Lab) -> Result<()> {
    let kept: Value = serde_json::from_slice(&fs::read(KEPT)?)?;
    let path = |name: &str| kept[name].as_str().map(PathBuf::from).context("path");
    let _plugin = PluginForAll::install()?;
    let wrapper = Wrapper::new(lab)?.with_folder(path("folder")?);
    lab.sim.load(MACHINE)?;
    nobody_runs()?;
    ensure!(
        wrapper.state("id_held")? == "held",
        "{}",
        wrapper.read("id_held")?
    );
    let bundle = Bundle::there(&path("bundle")?);
    let before = kept["iterations"].as_u64().context("iterations")?;
    let has_not_run = || -> Result<()> {
        let now = super::tool::iterations(&bundle.root())?;
        ensure!(now == before, "it ran: {before} iterations, then {now}");
        Ok(())
    };
    has_not_run()?;
    let container = Container("held");
    // What cannot be restored is not started in another way.
    let (images, aside) = (path("images")?, Path::new(DISK).join("aside"));
    fs::rename(&images, &aside)?;
    let words = ["create", "--bundle", folder_of(&bundle)?, container.0];
    wrapper.refused(&words, &["inventory.img"])?;
    ensure!(!container.is_known()?, "runc knows it");
    fs::rename(&aside, &images)?;
    has_not_run()?;

    wrapper.create(container.0, &bundle)?;
    wrapper.ok(&["start", container.0])?;
    ensure!(
        container.status()? == "paused",
        "it is {}",
        container.status()?
    );
    has_not_run()?;
    wrapper.thaw("id_held")?;
    let resident = Resident::in_root(container.pid()?, &bundle.root())?;
    resident.workload.prove()?;
    resident.workload.advances()?;
    resident.workload.finish()
}
