//! Restores in the place of `create`.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::round_trip::OTHER;
use super::tool::{COMMAND, Container, Taken, Wrapper, case, change};
use crate::case::{Case, Lab};
use crate::containers::{Device, PluginForAll};

pub(super) const CASES: &[Case] = &[
    case("wrapper/restores_on_other_gpus", restores_on_other_gpus),
    case("wrapper/holds_until_the_thaw", holds_until_the_thaw),
];

const MACHINE: &str = "preset=gfx90a-4";

/// On another machine's GPUs, by `create` and `start`; and then the ticket is used up.
fn restores_on_other_gpus(lab: &mut Lab) -> Result<()> {
    let (_plugin, wrapper) = (PluginForAll::install()?, Wrapper::new(lab)?);
    lab.sim.load(MACHINE)?;
    let given = Device::of_gpus(&lab.sim, &[0, 3])?;
    let taken = Taken::new(lab, &wrapper, &given)?;
    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    taken
        .bundle
        .write(COMMAND, &Device::of_gpus(&lab.sim, &[1, 2])?)?;
    wrapper.ticket("id_again", &taken.images, &json!({ "held": false }))?;
    let container = Container("again");
    wrapper.create(container.0, &taken.bundle)?;
    ensure!(
        wrapper.state("id_again")? == "used",
        "{}",
        wrapper.read("id_again")?
    );
    wrapper.ok(&["start", container.0])?;
    let resident = taken.goes_on(&container)?;
    wrapper.refused(&["start", container.0], &["already running"])?;
    resident.workload.finish()?;
    wrapper.ok(&["delete", "--force", container.0])?;
    ensure!(
        !wrapper.place(container.0).exists(),
        "something is still remembered"
    );
    let words = [
        "create",
        "--bundle",
        super::tool::folder_of(&taken.bundle)?,
        container.0,
    ];
    wrapper.refused(&words, &["the-checkpoint", "refuses to start it again"])
}

/// A container of a pod: it runs nothing before its thaw, also when it is killed and made anew.
fn holds_until_the_thaw(lab: &mut Lab) -> Result<()> {
    let (_plugin, wrapper) = (PluginForAll::install()?, Wrapper::new(lab)?);
    lab.sim.load(MACHINE)?;
    let given = Device::of_gpus(&lab.sim, &[0, 3])?;
    let taken = Taken::new(lab, &wrapper, &given)?;
    change(&taken.bundle, |config| {
        config["annotations"] = json!({
            "io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-uid": "u-1",
            "io.kubernetes.cri.container-name": "main", "rocferry.dev/restore": "request",
            // Somebody else's script would be run by root.
            "org.criu.config": "/tmp/foreign.conf",
        });
    })?;
    let stem = "pod_u-1_main";
    wrapper.ticket(stem, &taken.images, &json!({}))?;
    for container in [Container("first"), Container("second")] {
        wrapper.create(container.0, &taken.bundle)?;
        wrapper.ok(&["start", container.0])?;
        ensure!(wrapper.state(stem)? == "held", "{}", wrapper.read(stem)?);
        ensure!(
            container.status()? == "paused",
            "it is {}",
            container.status()?
        );
        wrapper.refused(
            &["resume", container.0],
            &["held until its migration is committed"],
        )?;
        taken.has_not_run()?;
        // The next dump reads it.
        let conf = fs::read_to_string(wrapper.place(container.0).join("criu.conf"))?;
        ensure!(
            !conf.contains("action-script"),
            "the script is still there: {conf}"
        );
        if container.0 == "first" {
            wrapper.ok(&["kill", container.0, "KILL"])?;
            wrapper.ok(&["delete", "--force", container.0])?;
            continue;
        }
        wrapper.thaw(stem)?;
        taken.goes_on(&container)?;
    }
    Ok(())
}
