//! A held restore by crun, without an engine.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::tool::{COMMAND, Wrapper, change, folder_of, iterations};
use crate::case::{Case, Lab, On};
use crate::containers::{Bundle, Device, PluginForAll, Resident, run};

pub(super) const CASES: &[Case] = &[Case {
    name: "wrapper/held_by_crun",
    on: On::Newest,
    limit_s: 300,
    run: held,
}];

const ORIGINAL: &str = "original";
const COPY: &str = "copy";
const TICKET: &str = "id_copy";

/// Containers of crun, deleted when dropped.
struct Containers;

impl Drop for Containers {
    fn drop(&mut self) {
        for id in [ORIGINAL, COPY] {
            let _ = run(&["crun", "delete", "--force", id]);
        }
    }
}

fn pid(id: &str) -> Result<i32> {
    let state: Value = serde_json::from_str(&run(&["crun", "state", id])?.ok()?)?;
    Ok(i32::try_from(state["pid"].as_i64().context("no pid")?)?)
}

fn held(lab: &mut Lab) -> Result<()> {
    let wrapper = Wrapper::around(lab, "crun")?;
    let _plugin = PluginForAll::install()?;
    lab.sim.load("preset=gfx90a-1")?;
    let given = Device::of_gpus(&lab.sim, &[0])?;
    let bundle = Bundle::new(&lab.folder("bundle")?, COMMAND, &given)?;
    let at = folder_of(&bundle)?.to_owned();
    let _containers = Containers;
    let cgroup = |id: &str| {
        let path = json!(format!("/rocferry-{id}"));
        change(&bundle, |spec| spec["linux"]["cgroupsPath"] = path)
    };
    cgroup(ORIGINAL)?;
    wrapper.create(ORIGINAL, &bundle)?;
    wrapper.ok(&["start", ORIGINAL])?;
    let resident = Resident::in_root(pid(ORIGINAL)?, &bundle.root())?;
    let traces = resident.leave_traces()?;
    let images = lab.folder("images")?;
    let path = images.to_str().context("path")?;
    wrapper.ok(&[
        "checkpoint",
        "--image-path",
        path,
        "--work-path",
        path,
        ORIGINAL,
    ])?;
    wrapper.ok(&["delete", "--force", ORIGINAL])?;
    drop(resident);
    let known = iterations(&bundle.root())?;

    wrapper.ticket(TICKET, &images, &json!({}))?;
    cgroup(COPY)?;
    // One that fails says why, leaves CRIU's log and nothing else, and can be tried again.
    lab.sim.fault("kfd.criu_op.restore 1 EINVAL")?;
    wrapper.refused(&["create", "--bundle", &at, COPY], &["CRIU_OP RESTORE"])?;
    lab.sim.clear_faults()?;
    let log = wrapper
        .run_folder
        .join(format!("logs/{TICKET}.restore.log"));
    let log = std::fs::read(&log).with_context(|| format!("no {}", log.display()))?;
    let log = String::from_utf8_lossy(&log);
    ensure!(log.contains("CRIU_OP RESTORE"), "another reason: {log}");
    ensure!(
        wrapper.state(TICKET)? == "ready",
        "it cannot be tried again"
    );
    ensure!(
        !run(&["crun", "state", COPY])?.good,
        "a half container is left"
    );

    wrapper.create(COPY, &bundle)?;
    wrapper.ok(&["start", COPY])?;
    ensure!(
        wrapper.state(TICKET)? == "held",
        "its ticket is {}",
        wrapper.state(TICKET)?
    );
    std::thread::sleep(std::time::Duration::from_secs(2));
    let now = iterations(&bundle.root())?;
    ensure!(now == known, "it ran: {known} iterations, then {now}");
    wrapper.thaw(TICKET)?;
    let resident = Resident::in_root(pid(COPY)?, &bundle.root())?;
    resident.is_as(&traces)?;
    lab.no_stray_access()?;
    resident.workload.finish()?;
    wrapper.ok(&["delete", "--force", COPY])
}
