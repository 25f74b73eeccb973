//! `rocferry-agent recover`: what is done about records whose agent is gone.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::decide::{Action, decide};
use super::{Entry, Journal, Phase, Record, Subject, Work};
use crate::checkpoint::{end, heal, run_again};
use crate::cli::{Answer, Exit};
use crate::error::{Error, causes};
use crate::format::to_json;
use crate::freeze::{Cgroup, FreezeError};
use crate::node::{CriuArgs, StateArgs, driver_of};
use crate::runtime::{Criu, ENTERING, end_of, give_up, kill};
use crate::{pod, prepare, process};

/// How long a CRIU that was left alone may take to give up.
const GIVE_UP: Duration = Duration::from_secs(60);
/// How long one may take that cannot be made to give up: it dumps to the end.
const FINISH: Duration = Duration::from_secs(300);
/// How long tasks may take to stop.
const FREEZE: Duration = Duration::from_secs(20);
/// How long it may take until all is gone that was killed.
const KILL: Duration = Duration::from_secs(60);

/// Bit of SIGXFSZ in the masks of `/proc/PID/status`.
const XFSZ: u64 = 1 << 24;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 all is put right, 2 something is not: it is named, and tried again next time."
)]
pub(crate) struct Args {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    criu: CriuArgs,
}

/// What was done about a record.
#[derive(Debug, Serialize)]
pub(crate) struct Recovered {
    /// The record.
    pub(crate) record: String,
    /// The container.
    pub(crate) container: String,
    /// `resumed`, `held`, `stopped`, `ended`, `forgotten`.
    pub(crate) done: &'static str,
    /// Why it could not be done.
    pub(crate) error: Option<String>,
}

impl Args {
    pub(crate) async fn run(&self) -> Result<Answer, Error> {
        let list = recover(&self.state.journal()?, &self.criu.criu()).await?;
        let failed = list.iter().any(|one| one.error.is_some());
        let text = match self.json {
            true => to_json(&list)?,
            false => list
                .iter()
                .map(|one| match &one.error {
                    None => format!("{} ({}): {}\n", one.container, one.record, one.done),
                    Some(error) => format!(
                        "{} ({}): not {}: {error}\n",
                        one.container, one.record, one.done
                    ),
                })
                .collect(),
        };
        Ok(Answer {
            text,
            notes: Vec::new(),
            exit: if failed { Exit::CannotTell } else { Exit::Yes },
        })
    }
}

/// Puts everything right that nobody works on. One that fails keeps no other from it.
pub(crate) async fn recover(journal: &Journal, criu: &Criu) -> Result<Vec<Recovered>, Error> {
    let boot_id = Path::new("/proc/sys/kernel/random/boot_id");
    let boot = process::boot_id().map_err(|source| Error::Read {
        path: boot_id.to_owned(),
        source,
    })?;
    let mut done = Vec::new();
    for (record, free) in journal.list()? {
        if !free {
            continue;
        }
        let Some(entry) = journal.take(&record.id)? else {
            continue;
        };
        let action = decide(entry.record(), &boot);
        let error = act(journal, action, entry, criu)
            .await
            .err()
            .map(|error| causes(&error));
        done.push(Recovered {
            record: record.id,
            container: record.subject.name,
            done: match action {
                Action::Forget => "forgotten",
                Action::Resume => "resumed",
                Action::Hold => "held",
                Action::Stop => "stopped",
                Action::KillHalf => "ended",
                Action::Discard => "discarded",
                Action::ThawPod => "thawed",
                Action::TakeBack => "to be restored again",
            },
            error,
        });
    }
    Cgroup::remove_empty(crate::restore::CGROUP_PREFIX);
    Ok(done)
}

async fn act(
    journal: &Journal,
    action: Action,
    mut entry: Entry,
    criu: &Criu,
) -> Result<(), Error> {
    match action {
        Action::Forget => {}
        Action::Resume => {
            end_workers(entry.record()).await;
            heal_if_killed(entry.record(), criu).await?;
            run_again(entry.record())?;
        }
        Action::Hold => return hold(entry),
        Action::Stop => {
            end(entry.record())?;
            if entry.record().keeps_others_out() {
                return hold(entry);
            }
        }
        Action::KillHalf => kill_half(entry.record(), criu).await?,
        Action::Discard => prepare::discard_unfinished(journal, entry.record())?,
        Action::ThawPod => return prepare::finish(journal, entry),
        Action::TakeBack => prepare::take_back(journal, entry.record())?,
    }
    entry.remove_spool()?;
    Ok(entry.finish()?)
}

fn hold(mut entry: Entry) -> Result<(), Error> {
    if let Some(pod) = entry.record().pod.clone() {
        if !pod::hold::keep(entry.record())? {
            // It has been deleted.
            pod::answering::end(&pod)?;
            return Ok(entry.finish()?);
        }
        entry.remove_spool()?;
        entry.advance(Phase::Held)?;
        // It may have died with the agent.
        return match &pod.answering {
            Some(answering)
                if answering.network.is_alive() && !pod::answering::goes_on(answering) =>
            {
                pod::answering::start(answering)
            }
            _ => Ok(()),
        };
    }
    let subject = &entry.record().subject;
    let alive = subject.init.is_none_or(process::ProcessId::is_alive);
    let Some(cgroup) = subject
        .cgroup
        .clone()
        .filter(|cgroup| alive && cgroup.exists())
    else {
        // It has ended: there is nothing to hold.
        return Ok(entry.finish()?);
    };
    cgroup.freeze(FREEZE)?;
    entry.remove_spool()?;
    Ok(entry.advance(Phase::Held)?)
}

/// Whoever still dumps comes to an end, without harm to what is dumped.
async fn end_workers(record: &Record) {
    let Some(spool) = &record.spool else { return };
    let mut workers = process::users_of(spool);
    // CRIU's code in them has its log open while they are dumped: they are not to be waited for, and never to be killed.
    let dumped = dumped(record);
    workers.retain(|pid| !dumped.contains(pid));
    if end_of(workers.clone(), ENTERING).await {
        return;
    }
    let mut limit = FINISH;
    for pid in &workers {
        if ignores_limit(*pid) {
            give_up(Some(*pid));
            limit = GIVE_UP;
        }
    }
    if end_of(workers.clone(), limit).await {
        return;
    }
    tracing::error!(
        container = record.subject.name,
        "A dump that was left alone does not end and is killed"
    );
    for pid in &workers {
        kill(*pid);
    }
    end_of(workers, KILL).await;
}

/// The processes that are dumped, as far as they can be found.
fn dumped(record: &Record) -> BTreeSet<u32> {
    let parts = record.pod.iter().flat_map(|pod| &pod.parts);
    let subjects = parts
        .map(|part| &part.subject)
        .chain(std::iter::once(&record.subject));
    let mut found = BTreeSet::new();
    for subject in subjects {
        if let Some(init) = subject.init.filter(|init| init.is_alive()) {
            found.extend(process::tree(init.pid));
        }
        if let Some(cgroup) = &subject.cgroup {
            found.extend(cgroup.processes().unwrap_or_default());
        }
    }
    found
}

/// A CRIU that was killed with its agent has left GPU queues stopped. Whether it was is not known: it does no harm to
/// one that was not.
async fn heal_if_killed(record: &Record, criu: &Criu) -> Result<(), Error> {
    let (Phase::Criu, Work::Checkpoint, Some(spool)) = (record.phase, record.work, &record.spool)
    else {
        return Ok(());
    };
    let parts = record.pod.iter().flat_map(|pod| &pod.parts);
    let mut subjects: Vec<&Subject> = parts.map(|part| &part.subject).collect();
    if record.pod.is_none() {
        subjects.push(&record.subject);
    } else if let Some(cgroup) = record
        .subject
        .cgroup
        .as_ref()
        .filter(|cgroup| cgroup.exists())
    {
        // CRIU cannot work below a frozen one.
        cgroup.thaw(FREEZE)?;
    }
    for subject in subjects {
        if !subject.init.is_some_and(process::ProcessId::is_alive) {
            continue;
        }
        let driver = driver_of(subject, criu.clone());
        match driver.find(&subject.name) {
            Ok(container) => {
                heal(&*driver, &container, &spool.join("heal").join(&subject.id)).await;
            }
            Err(error) => {
                tracing::warn!(%error, "Whether GPU queues are stopped cannot be looked at");
            }
        }
    }
    Ok(())
}

/// Was it started so that a limit on files makes it fail, and not die?
fn ignores_limit(pid: u32) -> bool {
    let status = process::read(&process::proc(pid).join("status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & XFSZ != 0)
}

/// What was restored so far ends, and CRIU with it.
async fn kill_half(record: &Record, criu: &Criu) -> Result<(), Error> {
    if let Some(spool) = &record.spool {
        // One that has not entered the cgroup yet.
        let workers = process::users_of(spool);
        for pid in &workers {
            kill(*pid);
        }
        end_of(workers, KILL).await;
    }
    match &record.subject.cgroup {
        Some(cgroup) if cgroup.exists() => {
            cgroup.kill(KILL)?;
            cgroup.remove()?;
        }
        _ => {}
    }
    if record.work == Work::Restore {
        driver_of(&record.subject, criu.clone()).discard(&record.subject.id)?;
    }
    Ok(())
}

impl Cgroup {
    /// Removes cgroups of our making in which nothing is left.
    fn remove_empty(prefix: &str) {
        for cgroup in Self::named(prefix) {
            match cgroup.processes() {
                Ok(processes) if processes.is_empty() => {
                    if let Err(error @ FreezeError::File { .. }) = cgroup.remove() {
                        tracing::debug!(%error, "A cgroup stays");
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::journal::{After, Journal};
    use crate::process::ProcessId;
    use crate::runtime::RuntimeKind;

    #[tokio::test]
    async fn what_is_dumped_is_no_worker_whatever_it_has_open() {
        let state = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(state.path()).expect("a journal");
        let subject = Subject {
            runtime: RuntimeKind::Bare,
            name: "dumped".to_owned(),
            id: "dumped".to_owned(),
            init: None,
            cgroup: None,
            program: None,
            root: None,
        };
        let entry = journal
            .begin(Work::Checkpoint, After::LeaveRunning, subject, true)
            .expect("a record");
        let spool = entry.record().spool.clone().expect("a spool");
        let log = spool.join("dump.log");
        let open = |log: &std::path::Path| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "exec 3>\"$0\"; echo >&3; exec sleep 600"]);
            command.arg(log).spawn().expect("a shell")
        };
        let (mut dumped, mut worker) = (open(&log), open(&spool.join("image")));
        while !(log.exists() && spool.join("image").exists()) {
            std::thread::yield_now();
        }
        let mut record = entry.record().clone();
        record.subject.init = ProcessId::of(dumped.id()).ok();
        let ending = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            worker.kill().expect("ours");
            worker.wait().expect("ended");
        });
        end_workers(&record).await;
        ending.join().expect("no panic");
        let ended = dumped.try_wait().expect("ours");
        assert!(ended.is_none(), "{ended:?}");
        dumped.kill().expect("ours");
        dumped.wait().expect("ended");
    }
}
