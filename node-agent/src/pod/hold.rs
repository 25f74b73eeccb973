//! A pod's freeze: the pod's cgroup for the instant and for keeping, each container's own for the time of the dump.
//!
//! ```text
//!            freeze              dump             keep
//! pod        ████████············· · · · ········ ████████   tasks of all containers stop and stay at one instant
//! container     ███████████████████████████████████████████   CRIU takes it back while it works, and puts it back
//! ```
//!
//! CRIU cannot work below a frozen cgroup, so that the pod's has to go while it dumps; a container's alone is not
//! enough to keep it, since runtimes thaw a container that they kill.

use std::time::Duration;

use super::answering;
use crate::error::{Error, causes};
use crate::freeze::{Cgroup, FreezeError};
use crate::journal::{PodPart, PodParts, Record};

/// How long a cgroup may take to stop or to go on.
const FREEZE: Duration = Duration::from_secs(20);
/// How long processes may take to end after they were killed.
const KILL: Duration = Duration::from_secs(60);

/// The cgroup of a record's pod, if it is there still.
fn cgroup(record: &Record) -> Option<&Cgroup> {
    let cgroup = record.subject.cgroup.as_ref();
    cgroup.filter(|cgroup| cgroup.exists())
}

/// Cgroups of containers that are there still.
fn own(parts: &[PodPart]) -> impl Iterator<Item = (&PodPart, &Cgroup)> {
    let own = parts
        .iter()
        .filter_map(|part| Some((part, part.subject.cgroup.as_ref()?)));
    own.filter(|(_, cgroup)| cgroup.exists())
}

/// Does all of it, and tells of the first failure; the others are logged.
fn each(steps: impl Iterator<Item = Result<(), FreezeError>>) -> Result<(), FreezeError> {
    let mut first = Ok(());
    for step in steps {
        match (&first, step) {
            (Ok(()), step) => first = step,
            (Err(_), Err(error)) => tracing::error!(error = causes(&error), "Another container"),
            (Err(_), Ok(())) => {}
        }
    }
    first
}

/// It is as it was before: what somebody else had frozen stays so.
pub(crate) fn release(record: &Record, pod: &PodParts) -> Result<(), Error> {
    let answered = answering::end(pod);
    each(
        own(&pod.parts)
            .filter(|(part, _)| !part.was_frozen)
            .map(|(_, cgroup)| cgroup.let_go()),
    )?;
    match (cgroup(record), record.was_frozen) {
        (None, _) => {}
        (Some(cgroup), true) => cgroup.freeze(FREEZE)?,
        (Some(cgroup), false) => {
            cgroup.thaw(FREEZE)?;
            let thawed = own(&pod.parts).filter(|(part, _)| !part.was_frozen);
            each(thawed.map(|(_, cgroup)| cgroup.thaw(FREEZE)))?;
        }
    }
    answered
}

/// All of it goes on, whoever had frozen it.
pub(crate) fn thaw(record: &Record, pod: &PodParts) -> Result<(), Error> {
    let answered = answering::end(pod);
    // While the pod's is frozen still: they go on together.
    each(own(&pod.parts).map(|(_, cgroup)| cgroup.let_go()))?;
    if let Some(cgroup) = cgroup(record) {
        cgroup.thaw(FREEZE)?;
    }
    each(own(&pod.parts).map(|(_, cgroup)| cgroup.thaw(FREEZE)))?;
    answered
}

/// It stands still, and whatever is started in it stands still too. False: there is nothing to be kept any more.
pub(crate) fn keep(record: &Record) -> Result<bool, FreezeError> {
    match cgroup(record) {
        Some(cgroup) => cgroup.freeze(FREEZE).map(|()| true),
        None => Ok(false),
    }
}

/// All its processes are killed and gone when this returns. Its cgroup stays frozen: what is started in it again, as
/// a kubelet does until the pod is deleted, does not run.
pub(crate) fn end(record: &Record, pod: &PodParts) -> Result<(), Error> {
    if let Some(cgroup) = cgroup(record) {
        cgroup.kill(KILL)?;
        cgroup.freeze(FREEZE)?;
        each(own(&pod.parts).map(|(_, cgroup)| cgroup.let_go()))?;
    }
    answering::end(pod)
}
