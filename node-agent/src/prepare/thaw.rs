//! Letting a held pod go: all of its containers at one instant, and none unless all are there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::subject;
use super::discard::keys;
use super::folder::Restores;
use crate::cli::{Answer, Exit};
use crate::decision::{Decisions, Side, Verdict, may_thaw};
use crate::error::Error;
use crate::fault::{Point, pass};
use crate::freeze::{Cgroup, FreezeError};
use crate::journal::{After, Entry, Journal, Phase, Record, Work};
use crate::ticket::{Key, PodUid, State, TicketFolder};

/// How long tasks may take to stop or to go on.
const LIMIT: Duration = Duration::from_secs(20);

/// A container of the pod, as it is now.
struct Container {
    key: Key,
    state: Option<State>,
}

/// Thaws it, if the decision lets it and all of its containers are held.
pub(crate) fn thaw(journal: &Journal, uid: &PodUid, overrides: bool) -> Result<Answer, Error> {
    let state = journal.state();
    let known = Decisions::below(state).of(uid)?;
    let source = known.source;
    if let Verdict::Stay(why) = may_thaw(Side::Target { source }, known.decision, overrides) {
        return Ok(no(format!("Pod {uid} stays held: {why}")));
    }
    if let Some(entry) = broken_off(journal, uid)? {
        finish(journal, entry)?;
        return Ok(runs(uid, Vec::new()));
    }
    let containers = containers(state, uid)?;
    if containers.is_empty() {
        return Ok(no(format!("Nothing is prepared for pod {uid} here")));
    }
    let waiting: Vec<String> = containers.iter().filter_map(Container::waits).collect();
    if !waiting.is_empty() {
        return Ok(no(format!("Pod {uid} stays held: {}", waiting.join("; "))));
    }
    if containers
        .iter()
        .all(|one| matches!(one.state, Some(State::Used { .. })))
    {
        return Ok(no(format!("Pod {uid} is not held: it was thawed")));
    }
    let cgroups: Vec<Cgroup> = containers.iter().filter_map(Container::cgroup).collect();
    let mut subject = subject(uid);
    subject.cgroup = pod_cgroup(uid, &cgroups);
    let together = subject.cgroup.is_some() || cgroups.len() < 2;
    let mut entry = journal.begin(Work::ThawPod, After::LeaveRunning, subject, false)?;
    entry.change(|record| {
        record.phase = Phase::Freezing;
        record.members.clone_from(&cgroups);
    })?;
    pass(Point::ThawBegun)?;
    mark(state, &mut entry)?;
    pass(Point::ThawMarked)?;
    release(&entry)?;
    entry.finish()?;
    let mut notes = Vec::new();
    if !together {
        notes.push(
            "Its containers have no cgroup in common that is theirs alone: they went on one after the other"
                .to_owned(),
        );
    }
    Ok(runs(uid, notes))
}

fn runs(uid: &PodUid, notes: Vec<String>) -> Answer {
    Answer {
        text: format!("Pod {uid} runs\n"),
        notes,
        exit: Exit::Yes,
    }
}

/// A thaw of this pod whose agent was killed, once it knew what to thaw.
fn broken_off(journal: &Journal, uid: &PodUid) -> Result<Option<Entry>, Error> {
    for (record, free) in journal.list()? {
        let is_its = record.work == Work::ThawPod && record.subject.id == Key::pod_record(uid);
        if is_its && free && record.phase != Phase::Begun {
            return Ok(journal.take(&record.id)?);
        }
    }
    Ok(None)
}

/// What a killed agent has begun comes to its end: nothing of it is taken back, as the decision was there.
pub(crate) fn finish(journal: &Journal, mut entry: Entry) -> Result<(), Error> {
    mark(journal.state(), &mut entry)?;
    release(&entry)?;
    Ok(entry.finish()?)
}

/// Nothing of it has run when the machine went down: it is restored again, as if no thaw had been begun.
pub(crate) fn take_back(journal: &Journal, record: &Record) -> Result<(), Error> {
    let uid: PodUid = record.subject.name.parse()?;
    let tickets = TicketFolder::new(journal.state());
    for key in keys(&tickets, &uid)? {
        tickets.take_back(&key)?;
    }
    Ok(())
}

/// Freezes the pod, so that all go on at one instant, and uses its tickets up. Nothing has run when this returns.
fn mark(state: &Path, entry: &mut Entry) -> Result<(), Error> {
    if let Some(pod) = existing(entry.record().subject.cgroup.as_ref()) {
        pod.freeze(LIMIT)?;
    }
    let uid: PodUid = entry.record().subject.name.parse()?;
    let tickets = TicketFolder::new(state);
    for key in keys(&tickets, &uid)? {
        tickets.use_up(&key)?;
    }
    Ok(entry.advance(Phase::Thawing)?)
}

fn release(entry: &Entry) -> Result<(), Error> {
    let record = entry.record();
    let members = || record.members.iter().filter_map(|one| existing(Some(one)));
    // Below a frozen one nothing moves yet.
    for member in members() {
        member.let_go()?;
    }
    if let Some(pod) = existing(record.subject.cgroup.as_ref()) {
        pod.thaw(LIMIT)?;
    }
    for member in members() {
        match member.thaw(LIMIT) {
            // It has ended meanwhile.
            Err(FreezeError::File { .. }) if !member.exists() => {}
            done => done?,
        }
    }
    Ok(())
}

fn existing(cgroup: Option<&Cgroup>) -> Option<&Cgroup> {
    cgroup.filter(|cgroup| cgroup.exists())
}

/// Every container that was prepared, and every one that has a ticket.
fn containers(state: &Path, uid: &PodUid) -> Result<Vec<Container>, Error> {
    let tickets = TicketFolder::new(state);
    let mut all = keys(&tickets, uid)?;
    if let Some(prepared) = Restores::below(state).read(uid)? {
        all.extend(prepared.keys());
    }
    all.sort_unstable();
    all.dedup();
    let read = |key: Key| -> Result<Container, Error> {
        let state = tickets.ticket(&key)?.map(|ticket| ticket.state);
        Ok(Container { key, state })
    };
    all.into_iter().map(read).collect()
}

impl Container {
    /// Why it cannot go on yet.
    fn waits(&self) -> Option<String> {
        let key = &self.key;
        let held = match &self.state {
            None => return Some(format!("the {key} has no ticket")),
            Some(State::Ready) => return Some(format!("the {key} is not there yet")),
            Some(State::Restoring { .. }) => return Some(format!("the {key} is being restored")),
            // One that a thaw has reached that was broken off.
            Some(State::Used { .. }) => return None,
            Some(State::Held { cgroup, .. }) => Cgroup::at(cgroup),
        };
        let lives = held
            .processes()
            .is_ok_and(|processes| !processes.is_empty());
        match (lives, held.is_frozen()) {
            (true, Ok(true)) => None,
            (true, Ok(false)) => Some(format!("the {key} was thawed by somebody")),
            (true, Err(error)) => Some(format!("the {key}: {}", crate::error::causes(&error))),
            (false, _) => Some(format!("the {key} has ended, and is not there again yet")),
        }
    }

    fn cgroup(&self) -> Option<Cgroup> {
        match &self.state {
            Some(State::Held { cgroup, .. }) => Some(Cgroup::at(cgroup)),
            _ => None,
        }
    }
}

/// The cgroup of the pod: that right above those of all containers. It must be the pod's by its name (cgroupfs and
/// systemd write the UID there): in any other one processes would be frozen that have nothing to do with it.
fn pod_cgroup(uid: &PodUid, containers: &[Cgroup]) -> Option<Cgroup> {
    let mut above = containers.iter().map(|cgroup| {
        let path = match cgroup.parent_of("container") {
            Some(parent) => parent.path().to_owned(),
            None => cgroup.path().to_owned(),
        };
        path.parent().map(Path::to_owned)
    });
    let first: PathBuf = above.next()??;
    let name = first.file_name()?.to_str()?;
    let uid = uid.as_str();
    let is_pods = name.contains(uid) || name.contains(&uid.replace('-', "_"));
    let same = above.all(|other| other.as_ref() == Some(&first));
    (is_pods && same).then(|| Cgroup::at(first))
}

fn no(why: String) -> Answer {
    Answer {
        text: String::new(),
        notes: vec![why],
        exit: Exit::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pods_own_cgroup_is_frozen() {
        let uid: PodUid = "0a-b1".parse().expect("uid");
        let of = |paths: &[&str]| {
            let cgroups: Vec<_> = paths.iter().map(Cgroup::at).collect();
            let found = pod_cgroup(&uid, &cgroups)?;
            Some(found.path().display().to_string())
        };
        assert_eq!(
            of(&["/c/kubepods/pod0a-b1/x", "/c/kubepods/pod0a-b1/y"]).as_deref(),
            Some("/c/kubepods/pod0a-b1")
        );
        assert_eq!(
            of(&[
                "/c/kubepods-pod0a_b1.slice/cri-x.scope/container",
                "/c/kubepods-pod0a_b1.slice/cri-y.scope"
            ])
            .as_deref(),
            Some("/c/kubepods-pod0a_b1.slice")
        );
        for others in [
            &["/c/system.slice/x"][..],
            &["/c/pod0a-b1/x", "/c/pod0a-b2/y"],
            &["/c/x"],
            &["/"],
            &[],
        ] {
            assert_eq!(of(others), None, "{others:?}");
        }
    }
}
