//! A container of a pod, restored by the wrapper in a pod of the other machine and back, held each time.

use anyhow::Result;

use super::{HERE, Known, agent, keep, known, traces, word};
use crate::case::Lab;
use crate::cases::round_trip::OTHER;
use crate::cases::wrapper::pod_tool::{Keys, MAIN, Machine};
use crate::cases::wrapper::there_and_back::{restored, stored};
use crate::containers::{Contents, Device, PluginForAll, Pod, PodOptions, Resident};

/// Starts it and stores it.
pub(super) fn first(lab: &mut Lab) -> Result<()> {
    let mut known = known()?;
    lab.sim.load(HERE)?;
    let _plugin = PluginForAll::install()?;
    let keys = Keys::new(lab)?;
    let agent = agent(lab, &known)?;
    let mut pod = Pod::start(lab, "train", &PodOptions::default())?;
    let pid = pod.run(&Contents {
        devices: &Device::of_gpus(&lab.sim, &[0])?,
        ..Contents::new("main", MAIN)
    })?;
    let resident = Resident::in_root(pid, &pod.root("main"))?;
    let traces = resident.leave_traces()?;
    known.insert("traces".to_owned(), traces.to_json());
    known.insert("id".to_owned(), stored(&agent, &keys, &pod)?.into());
    keep(known)
}

/// Goes on with it on the other machine, and stores it again: now it is a restored one.
pub(super) fn second(lab: &mut Lab) -> Result<()> {
    lab.sim.load(&format!("{HERE} {OTHER}"))?;
    let mut known = known()?;
    let (machine, keys, pod, _resident) = take(lab, 2, &known)?;
    let id = stored(&machine.agent, &keys, &pod)?;
    known.insert("id".to_owned(), id.into());
    keep(known)
}

/// Goes on with it where it began, on another GPU.
pub(super) fn third(lab: &mut Lab) -> Result<()> {
    lab.sim.load(HERE)?;
    let (_machine, _keys, _pod, resident) = take(lab, 3, &known()?)?;
    lab.no_stray_access()?;
    resident.workload.finish()
}

fn take(lab: &mut Lab, gpu: usize, known: &Known) -> Result<(Machine, Keys, Pod, Resident)> {
    let _plugin = PluginForAll::install()?;
    let keys = Keys::new(lab)?;
    let agent = agent(lab, known)?;
    let state = lab.folder("state")?;
    let machine = Machine::new(lab, agent, state, gpu)?;
    let (id, traces) = (word(known, "id")?, traces(known)?);
    let (resident, pod) = restored(lab, &machine, &keys, &id, &traces)?;
    Ok((machine, keys, pod, resident))
}
