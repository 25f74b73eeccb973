//! A container of a pod, checkpointed by the agent, restored on another machine by the wrapper, and back: the second time it
//! is a restored container that is dumped.

use anyhow::{Context, Result, ensure};

use super::super::agent::tool::{Agent, case as long_case, nobody_runs};
use super::super::round_trip::OTHER;
use super::pod_tool::{Keys, MAIN, Machine, decide};
use crate::case::{Case, Lab};
use crate::containers::{Contents, Device, PluginForAll, Pod, PodOptions, Resident, Traces};

pub(super) const CASES: &[Case] = &[long_case("wrapper/there_and_back", 600, there_and_back)];

const MACHINE: &str = "preset=gfx90a-4";

fn there_and_back(lab: &mut Lab) -> Result<()> {
    let _plugin = PluginForAll::install()?;
    let keys = Keys::new(lab)?;
    lab.sim.load(MACHINE)?;
    let first = Agent::new(lab)?;
    let mut pod = Pod::start(lab, "train", &PodOptions::default())?;
    let gpu = Device::of_gpus(&lab.sim, &[0])?;
    let pid = pod.run(&Contents {
        devices: &gpu,
        ..Contents::new("main", MAIN)
    })?;
    let resident = Resident::in_root(pid, &pod.root("main"))?;
    let traces = resident.leave_traces()?;
    let id = stored(&first, &keys, &pod)?;
    drop((resident, pod));
    nobody_runs()?;

    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    let folder = lab.folder("state")?;
    let there = first.elsewhere(lab)?;
    let there = Machine::new(lab, there, folder, 2)?;
    let (resident, pod) = restored(lab, &there, &keys, &id, &traces)?;
    let id = stored(&there.agent, &keys, &pod)?;
    drop((resident, pod));
    nobody_runs()?;

    lab.sim.load(MACHINE)?;
    let folder = lab.folder("state")?;
    let back = first.elsewhere(lab)?;
    let back = Machine::new(lab, back, folder, 3)?;
    restored(lab, &back, &keys, &id, &traces).map(drop)
}

/// Has the agent store the container and stop it. The checkpoint.
pub(crate) fn stored(agent: &Agent, keys: &Keys, pod: &Pod) -> Result<String> {
    let container = pod.id("main");
    let words = [
        "checkpoint",
        "--runtime",
        "runc",
        "--json",
        "--stop",
        "--sign",
        &keys.sign,
        "--bind",
        "team/1234/train/main",
        &container,
    ];
    let report = agent.run(&words)?.is(0)?.json()?;
    let id = report["id"].as_str().context("no id")?;
    Ok(id.to_owned())
}

/// Restores it in a new pod of a machine, held and let go. A resident that is dropped is killed.
pub(crate) fn restored(
    lab: &mut Lab,
    machine: &Machine,
    keys: &Keys,
    id: &str,
    traces: &Traces,
) -> Result<(Resident, Pod)> {
    let mut pod = machine.pod(lab)?;
    let uid = pod.uid.clone();
    let words = [
        "prepare",
        "--pod-uid",
        &uid,
        "--for",
        "team/train",
        "--trust",
        &keys.trust,
        "--held",
        id,
    ];
    machine.agent.run(&words)?.is(0)?;
    let pid = pod.run(&Contents {
        devices: machine.gpu(),
        ..Contents::new("main", MAIN)
    })?;
    ensure!(
        machine.ticket(&pod, "main")? == "held",
        "it is {}",
        machine.ticket(&pod, "main")?
    );
    let decided = decide(&uid, &["commit", "--source", "gone"]);
    machine.agent.run(&decided)?.is(0)?;
    machine.agent.run(&["thaw", "--pod-uid", &uid])?.is(0)?;
    let resident = Resident::in_root(pid, &pod.root("main"))?;
    resident.is_as(traces)?;
    Ok((resident, pod))
}
