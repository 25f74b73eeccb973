//! A container of Podman's with crun, by the agent's own commands: to the other machine and back.

use anyhow::{Context, Result, ensure};

use super::{HERE, Known, agent, keep, known, traces, word};
use crate::case::Lab;
use crate::cases::agent::engines::{checkpoint, restore};
use crate::cases::agent::tool::nobody_runs;
use crate::cases::containers::COMMAND;
use crate::cases::round_trip::OTHER;
use crate::containers::{Device, PluginForAll, Podman, Resident, Runtime};

/// crun opens all GPUs of a machine while it restores, so the container has them all.
const GPUS: [usize; 4] = [0, 1, 2, 3];

/// The image that it is made from, for the other machine.
const IMAGE: &str = "/host/kept/image.tar";

/// Starts it and stores it.
pub(super) fn first(lab: &mut Lab) -> Result<()> {
    let mut known = known()?;
    lab.sim.load(HERE)?;
    let _plugin = PluginForAll::install()?;
    let podman = engine(lab)?;
    podman
        .run(&["save", "--quiet", "--output", IMAGE, Podman::IMAGE])?
        .ok()?;
    podman.start("gpu-0", &Device::of_gpus(&lab.sim, &GPUS)?, COMMAND)?;
    let resident = Resident::new(podman.pid("gpu-0")?)?;
    let traces = resident.leave_traces()?;
    known.insert("traces".to_owned(), traces.to_json());
    store(lab, &podman, "gpu-0", known)
}

/// Goes on with it on the other machine, and stores it again: now it is a restored one.
pub(super) fn second(lab: &mut Lab) -> Result<()> {
    lab.sim.load(&format!("{HERE} {OTHER}"))?;
    let _plugin = PluginForAll::install()?;
    let known = known()?;
    let podman = engine(lab)?;
    is_refused_without_its_image(lab, &podman, &known)?;
    podman.run(&["load", "--quiet", "--input", IMAGE])?.ok()?;
    let _resident = take(lab, &podman, "gpu-1", &known)?;
    store(lab, &podman, "gpu-1", known)
}

/// Goes on with it where it began.
pub(super) fn third(lab: &mut Lab) -> Result<()> {
    lab.sim.load(HERE)?;
    let _plugin = PluginForAll::install()?;
    let podman = engine(lab)?;
    podman.run(&["load", "--quiet", "--input", IMAGE])?.ok()?;
    let _resident = take(lab, &podman, "gpu-2", &known()?)?;
    podman
        .run(&["exec", "gpu-2", "/bin/busybox", "true"])?
        .ok()?;
    lab.no_stray_access()?;
    podman.run(&["kill", "--signal", "TERM", "gpu-2"])?.ok()?;
    let status = podman.run(&["wait", "gpu-2"])?.ok()?;
    ensure!(status == "0", "the workload ended with {status}");
    Ok(())
}

/// This machine has an image of the name, but another one.
fn is_refused_without_its_image(lab: &mut Lab, podman: &Podman, known: &Known) -> Result<()> {
    let program = podman.wrapper()?;
    let id = word(known, "id")?;
    let ended = agent(lab, known)?.run(&restore(&program, "gpu-1", &id))?;
    ensure!(ended.code != 0, "it was restored from another image");
    let said = ended.json()?.to_string();
    for words in [Podman::IMAGE, "podman load"] {
        ensure!(said.contains(words), "{words} is not in {said}");
    }
    nobody_runs()
}

fn engine(lab: &mut Lab) -> Result<Podman> {
    Podman::new(Runtime::Crun, &lab.folder("podman")?)
}

fn store(lab: &mut Lab, podman: &Podman, name: &str, mut known: Known) -> Result<()> {
    let program = podman.wrapper()?;
    let agent = agent(lab, &known)?;
    let report = agent.run(&checkpoint(&program, name))?.is(0)?.json()?;
    let id = report["id"].as_str().context("no id")?;
    known.insert("id".to_owned(), id.into());
    agent.is_idle()?;
    keep(known)
}

fn take(lab: &mut Lab, podman: &Podman, name: &str, known: &Known) -> Result<Resident> {
    let program = podman.wrapper()?;
    let agent = agent(lab, known)?;
    let id = word(known, "id")?;
    agent.run(&restore(&program, name, &id))?.is(0)?;
    let resident = Resident::new(podman.pid(name)?)?;
    resident.is_as(&traces(known)?)?;
    Ok(resident)
}
