//! Ways in which a hold could open: in none of them does the container run anything, and a retry works.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::tool::{Container, Taken, Wrapper, case, change, folder_of};
use crate::case::{Case, Lab};
use crate::containers::{Device, PluginForAll};

pub(super) const CASES: &[Case] = &[case("wrapper/no_hold_opens", no_hold_opens)];

/// What goes wrong, and what the user is told.
struct Way {
    name: &'static str,
    /// In a shell, before runc restores; `$1` is the container's folder.
    before: &'static str,
    /// In the container's specification.
    limits: fn() -> Value,
    /// In the simulator.
    fault: &'static str,
    /// Part of the reason.
    reason: &'static str,
}

const NONE: Way = Way {
    name: "",
    before: "",
    limits: || json!({}),
    fault: "",
    reason: "",
};

const WAYS: &[Way] = &[
    Way {
        name: "the script is gone",
        before: "rm $1/rocferry-hold",
        reason: "rocferry-hold",
        ..NONE
    },
    Way {
        name: "the script is not executable",
        before: "rm $1/rocferry-hold; echo > $1/rocferry-hold",
        reason: "rocferry-hold",
        ..NONE
    },
    Way {
        name: "its plan is gone",
        before: "rm $1/hold-plan.json",
        reason: "There is no plan",
        ..NONE
    },
    Way {
        name: "no process more is allowed",
        limits: || json!({ "pids": { "limit": 1 } }),
        ..NONE
    },
    Way {
        name: "there is no memory",
        limits: || json!({ "memory": { "limit": 1 << 20 } }),
        ..NONE
    },
    Way {
        name: "the queues cannot be resumed",
        fault: "kfd.criu_op.resume 1 EIO",
        ..NONE
    },
];

fn no_hold_opens(lab: &mut Lab) -> Result<()> {
    let (_plugin, wrapper) = (PluginForAll::install()?, Wrapper::new(lab)?);
    lab.sim.load("preset=gfx90a-2")?;
    let given = Device::of_gpus(&lab.sim, &[0])?;
    let taken = Taken::new(lab, &wrapper, &given)?;
    let container = Container("held");
    let words = ["create", "--bundle", folder_of(&taken.bundle)?, container.0];
    wrapper.ticket("id_held", &taken.images, &json!({}))?;
    for way in WAYS {
        let devices = devices(&taken)?;
        change(&taken.bundle, |config| {
            config["linux"]["resources"] = (way.limits)();
            config["linux"]["resources"]["devices"] = devices.clone();
        })?;
        if !way.fault.is_empty() {
            lab.sim.fault(way.fault)?;
        }
        let broken = wrapper.with_runtime(container.0, way.before)?;
        broken
            .refused(&words, &[way.reason])
            .with_context(|| way.name)?;
        lab.sim.clear_faults()?;
        taken.has_not_run().with_context(|| way.name)?;
        ensure!(!container.is_known()?, "{}: runc still knows it", way.name);
        ensure!(
            !wrapper.place(container.0).exists(),
            "{}: something is left",
            way.name
        );
        ensure!(
            wrapper.state("id_held")? == "ready",
            "{}: {}",
            way.name,
            wrapper.read("id_held")?
        );
        change(&taken.bundle, |config| {
            config["linux"]["resources"] = json!({ "devices": devices });
        })?;
    }
    // One of the two files that name the script is not enough to lose it.
    let broken = wrapper.with_runtime(container.0, "rm $1/criu.conf")?;
    broken.create(container.0, &taken.bundle)?;
    ensure!(
        container.status()? == "paused",
        "it is {}",
        container.status()?
    );
    taken.has_not_run()?;
    wrapper.thaw("id_held")?;
    taken.goes_on(&container).map(drop)
}

fn devices(taken: &Taken) -> Result<Value> {
    let config: Value =
        serde_json::from_slice(&fs::read(taken.bundle.path().join("config.json"))?)?;
    Ok(config["linux"]["resources"]["devices"].clone())
}
