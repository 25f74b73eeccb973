//! `freeze --pod`: all containers of a pod at one instant, through the pod's cgroup.

use super::verb::{FreezeArgs, LIMIT, no, yes};
use crate::checkpoint::{parts, subject};
use crate::cli::Answer;
use crate::error::{Error, causes};
use crate::fault::{Point, pass};
use crate::journal::{After, Entry, Phase, Work};
use crate::pod::{Pod, answering, hold};
use crate::preflight::shares_network;
use crate::probes::{ProbeError, rooms};

pub(super) fn freeze(args: &FreezeArgs, wanted: &str) -> Result<Answer, Error> {
    let journal = args.state.journal()?;
    let pod = Pod::find(&args.runtime.of_pods()?, wanted)?;
    let name = pod.full_name();
    if pod.cgroup.is_told_to_freeze()? {
        return Ok(no(format!("{name} is frozen already")));
    }
    let specification = args.containers.as_deref().map(rooms).transpose()?;
    let network = pod.network();
    if let (Some((rooms, _)), Some(network)) = (&specification, network)
        && !rooms.is_empty()
        && shares_network(network.pid)
    {
        return Err(ProbeError::HostNetwork { pid: network.pid }.into());
    }
    let (work, after) = (Work::Freeze, After::KeepFrozen);
    let mut entry = journal.begin_pod(work, after, subject(&pod), parts(&pod)?, false)?;
    let mut frozen = || -> Result<(), Error> {
        if let (Some((_, content)), Some(network)) = (&specification, network)
            && !shares_network(network.pid)
        {
            answering::begin(&mut entry, network, Some(content), &args.node_address)?;
        }
        entry.advance(Phase::Freezing)?;
        pass(Point::FreezeBegun)?;
        pod.cgroup.freeze(LIMIT)?;
        pod.is_alone()?;
        pass(Point::FreezeDone)?;
        Ok(entry.advance(Phase::Held)?)
    };
    match frozen() {
        Ok(()) => Ok(yes(format!("{name} is frozen\n"))),
        Err(error) => {
            undo(entry);
            Err(error)
        }
    }
}

/// After a failure. What cannot be undone stays in the journal, and is said.
fn undo(entry: Entry) {
    let record = entry.record();
    let undone = match &record.pod {
        Some(pod) => hold::release(record, pod),
        None => Ok(()),
    };
    let closed = undone.and_then(|()| Ok(entry.finish()?));
    if let Err(error) = closed {
        tracing::error!(error = causes(&error), "Cannot take a freeze back");
    }
}
