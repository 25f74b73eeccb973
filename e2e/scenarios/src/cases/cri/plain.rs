//! Pods that are none of ours.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::node::{Node, is_as_any_other, logged, say};
use crate::case::{Case, Lab};
use crate::cases::agent::tool::{Agent, case};
use crate::cases::wrapper::pod_tool::MAIN;
use crate::containers::{Contents, Device, Resident, Volume};

pub(super) const CASES: &[Case] = &[case("cri/plain_whatever_is_broken", 900, plain)];

/// A pod under the wrapper that nobody has marked starts as under runc; so it does when all that the wrapper reads is broken.
/// One that is marked does not.
fn plain(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let node = Node::start(lab, agent)?;
    let client = node.client()?;
    let gpu = Device::of_gpus(&lab.sim, &[0])?;
    let volumes = [Volume::all("scratch", "/scratch")];
    let contents = Contents {
        devices: &gpu,
        volumes: &volumes,
        ..Contents::new("main", MAIN)
    };
    for broken in [false, true] {
        if broken {
            break_all(&node)?;
        }
        let mut pod = node.wrapped(lab, "plain", &[])?;
        let id = pod.run(&contents)?;
        let resident = Resident::in_root(client.pid(&id)?, &client.root(&id))?;
        say(resident.workload.pid, "hello")?;
        logged(&pod.log("main"), "hello")?;
        resident.workload.prove()?;
        is_as_any_other(client, &id)?;
        drop(resident);
        pod.delete()?;
    }
    let mut marked = node.wrapped(lab, "marked", &[("rocferry.dev/restore", "request")])?;
    let error = marked.run(&contents).err().context("it was started")?;
    let error = format!("{error:#}");
    // What CRI answers is what a kubelet shows.
    ensure!(error.contains("marked for a restore"), "{error}");
    Ok(())
}

fn break_all(node: &Node) -> Result<()> {
    for name in ["tickets", "fences", "volumes"] {
        let path = node.folder.join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
        }
        fs::write(&path, "no folder")?;
    }
    fs::create_dir_all("/etc/rocferry")?;
    Ok(fs::write("/etc/rocferry/runc.json", "{ \"runtime\": 7")?)
}
