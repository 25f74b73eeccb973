//! `freeze`, `thaw` and `status`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::cli::{Answer, Exit};
use crate::decision::{Decision, Decisions, Side, Verdict, may_thaw};
use crate::error::Error;
use crate::fault::{Point, pass};
use crate::format::to_json;
use crate::image::{age, table};
use crate::journal::{After, Entry, Journal, Phase, Record, Work, now_ms};
use crate::node::{RuntimeArgs, StateArgs};
use crate::pod::hold;
use crate::prepare;
use crate::ticket::PodUid;

/// How long tasks may take to stop or to go on.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 it is frozen, 1 it cannot be or was already, 2 it failed: it runs."
)]
pub(crate) struct FreezeArgs {
    #[command(flatten)]
    pub(super) runtime: RuntimeArgs,
    /// The container: its name or id; without a runtime a pid
    #[arg(required_unless_present = "pod", conflicts_with = "pod")]
    name: Option<String>,
    /// A whole pod: its UID, NAMESPACE/NAME, or the id of one of its containers
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Containers of the pod, as in its specification (a JSON list): their probes are answered while it is frozen
    #[arg(long, value_name = "FILE", requires = "pod")]
    pub(super) containers: Option<PathBuf>,
    /// Address of the node as the pod sees it; without it, those of the pod's default routes
    #[arg(long, value_name = "ADDRESS", requires = "pod")]
    pub(super) node_address: Vec<IpAddr>,
    #[command(flatten)]
    pub(super) state: StateArgs,
}

impl FreezeArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        match (&self.pod, &self.name) {
            (Some(pod), _) => super::pod::freeze(self, pod),
            (None, name) => self.freeze(name.as_deref().unwrap_or_default()),
        }
    }

    fn freeze(&self, name: &str) -> Result<Answer, Error> {
        let journal = self.state.journal()?;
        let container = self.runtime.driver().find(name)?;
        let Some(cgroup) = container.cgroup.clone() else {
            return Ok(no(format!(
                "{name} has no cgroup (version 2) of its own that could be frozen"
            )));
        };
        if cgroup.is_frozen()? {
            return Ok(no(format!("{name} is frozen already")));
        }
        let subject = container.subject();
        let mut entry = journal.begin(Work::Freeze, After::KeepFrozen, subject, false)?;
        let frozen = || -> Result<(), Error> {
            entry.advance(Phase::Freezing)?;
            pass(Point::FreezeBegun)?;
            cgroup.freeze(LIMIT)?;
            pass(Point::FreezeDone)?;
            Ok(entry.advance(Phase::Held)?)
        };
        let mut frozen = frozen;
        match frozen() {
            Ok(()) => Ok(yes(format!("{name} is frozen\n"))),
            Err(error) => {
                match cgroup.thaw(LIMIT) {
                    Ok(()) => entry.finish()?,
                    Err(error) => tracing::error!(%error, "Cannot take a freeze back"),
                }
                Err(error)
            }
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 it runs, 1 it may not or is not held, 2 it failed.")]
pub(crate) struct ThawArgs {
    /// The container as it was named when it was frozen, its id, or the record that `status` shows
    #[arg(required_unless_present = "pod_uid")]
    name: Option<String>,
    /// The held pod with this UID, all of it
    #[arg(long, value_name = "UID", conflicts_with = "name")]
    pod_uid: Option<PodUid>,
    /// Thaw it although a copy of it may run elsewhere: its checkpoint is stored, or its migration is not committed
    #[arg(long = "override")]
    overrides: bool,
    #[command(flatten)]
    state: StateArgs,
}

impl ThawArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        let journal = self.state.journal()?;
        if let Some(uid) = &self.pod_uid {
            return prepare::thaw(&journal, uid, self.overrides);
        }
        let wanted = self.name.as_deref().unwrap_or_default();
        let held = match Held::find(&journal, wanted)? {
            Ok(held) => held,
            Err(why) => return Ok(no(why)),
        };
        let stored = held.records.iter();
        for record in stored.filter(|record| record.work == Work::Checkpoint) {
            if let Verdict::Stay(why) = self.verdict(&journal, record)? {
                return Ok(no(format!(
                    "{wanted} was checkpointed as {}: {why}. --override thaws it all the same",
                    record.checkpoint.as_deref().unwrap_or("(unknown)")
                )));
            }
        }
        let entries = match held.take(&journal)? {
            Ok(entries) => entries,
            Err(why) => return Ok(no(why)),
        };
        thaw(entries)?;
        Ok(yes(format!("{wanted} runs\n")))
    }
}

impl ThawArgs {
    /// Its checkpoint is stored: others may act on that. Decisions are about pods, which are known by their UID.
    fn verdict(&self, journal: &Journal, record: &Record) -> Result<Verdict, Error> {
        let decision = match record.subject.id.parse() {
            Ok(uid) => Decisions::below(journal.state()).of(&uid)?.decision,
            Err(_) => Decision::Undecided,
        };
        let side = Side::Source { prepared: true };
        Ok(may_thaw(side, decision, self.overrides))
    }
}

/// All records that hold a container or pod: it may have been checkpointed more than once.
pub(super) struct Held {
    name: String,
    pub(super) records: Vec<Record>,
}

impl Held {
    /// Looks them up by a name; the inner error says why not, for people.
    pub(super) fn find(journal: &Journal, name: &str) -> Result<Result<Self, String>, Error> {
        let list = journal.list()?;
        let held = list
            .into_iter()
            .filter(|(record, free)| *free && matches!(record.phase, Phase::Held | Phase::Thawing));
        let held: Vec<Record> = held.map(|(record, _)| record).collect();
        let is_named = |record: &&Record| {
            let subject = &record.subject;
            [&record.id, &subject.name, &subject.id]
                .iter()
                .any(|known| *known == name)
        };
        let mut named = held.iter().filter(is_named);
        let Some(first) = named.next() else {
            return Ok(Err(format!("{name} is not held here")));
        };
        if let Some(other) = named.find(|record| !record.subject.is_same_as(&first.subject)) {
            return Ok(Err(format!(
                "{name} may be that of record {} or of {}: name the record",
                first.id, other.id
            )));
        }
        let same = held
            .iter()
            .filter(|record| record.subject.is_same_as(&first.subject));
        Ok(Ok(Self {
            name: name.to_owned(),
            records: same.cloned().collect(),
        }))
    }

    /// Takes them over; the inner error says why not.
    pub(super) fn take(&self, journal: &Journal) -> Result<Result<Vec<Entry>, String>, Error> {
        let mut entries = Vec::new();
        for record in &self.records {
            match journal.take(&record.id)? {
                Some(entry) => entries.push(entry),
                None => return Ok(Err(format!("{} is being worked on", self.name))),
            }
        }
        Ok(Ok(entries))
    }
}

fn thaw(mut entries: Vec<Entry>) -> Result<(), Error> {
    for entry in &mut entries {
        entry.advance(Phase::Thawing)?;
    }
    pass(Point::ThawBegun)?;
    for entry in entries {
        if let Some(pod) = &entry.record().pod {
            hold::thaw(entry.record(), pod)?;
        } else if let Some(cgroup) = &entry.record().subject.cgroup
            && cgroup.exists()
        {
            cgroup.thaw(LIMIT)?;
        }
        entry.finish()?;
    }
    Ok(())
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Show what is prepared for pods, and nothing else
    #[arg(long)]
    tickets: bool,
    /// Answer in JSON: the records, or with --tickets the tickets
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArgs,
}

/// A record, and how its container is.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    record: Record,
    /// An agent works on it.
    busy: bool,
    /// `None`: it is gone, or has no cgroup of its own.
    frozen: Option<bool>,
    /// Does its first process live?
    alive: Option<bool>,
}

impl StatusArgs {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        let journal = self.state.journal()?;
        if self.tickets {
            let shown = prepare::shown(&journal)?;
            let text = match self.json {
                true => to_json(&shown)?,
                false => prepare::lines(&shown),
            };
            return Ok(yes(text));
        }
        let list = journal.list()?;
        let shown: Vec<Shown> = list
            .into_iter()
            .map(|(record, free)| Shown {
                busy: !free,
                frozen: record
                    .subject
                    .cgroup
                    .as_ref()
                    .and_then(|cgroup| cgroup.is_frozen().ok()),
                alive: record.subject.init.map(|init| init.is_alive()),
                record,
            })
            .collect();
        let text = match self.json {
            true => to_json(&shown)?,
            false => lines(&shown) + &prepare::lines(&prepare::shown(&journal)?),
        };
        Ok(yes(text))
    }
}

fn lines(shown: &[Shown]) -> String {
    if shown.is_empty() {
        return "Nothing is frozen, held or under way\n".to_owned();
    }
    let head = [
        "RECORD",
        "RUNTIME",
        "CONTAINER",
        "WORK",
        "PHASE",
        "AGE",
        "STATE",
        "CHECKPOINT",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let now = now_ms();
    for one in shown {
        let record = &one.record;
        let state = match (one.busy, one.alive, one.frozen) {
            (true, ..) => "under way",
            (_, Some(false), _) => "gone",
            (_, _, Some(true)) => "frozen",
            (_, _, Some(false)) => "runs",
            (_, _, None) => "unknown",
        };
        rows.push(vec![
            record.id.clone(),
            record.subject.runtime.to_string(),
            record.subject.name.clone(),
            record.work.to_string(),
            record.phase.to_string(),
            age(record.begun_ms, now),
            state.to_owned(),
            record.checkpoint.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table(&rows)
}

pub(super) const fn yes(text: String) -> Answer {
    Answer {
        text,
        notes: Vec::new(),
        exit: Exit::Yes,
    }
}

pub(super) fn no(why: String) -> Answer {
    Answer {
        text: String::new(),
        notes: vec![why],
        exit: Exit::No,
    }
}
