//! The arguments, and the order of things.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rocferry_image::manifest::{CheckpointId, Source};
use rocferry_store::Store;
use rocferry_store::push::{Follower, Upload};
use serde::Serialize;

use super::{dump, facts, outcome, saved, store};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::fault::{Point, pass};
use crate::format::to_json;
use crate::image::{Bar, StoreKeys, Storing, duration, size};
use crate::interrupt::Interrupt;
use crate::journal::{After, Entry, Phase, Work};
use crate::node::{RuntimeArgs, StateArgs};
use crate::pod::PodRecord;
use crate::preflight::{self, Finding};
use crate::runtime::{Container, DumpOptions, Runtime, Tcp};

/// How long a cgroup may take to stop or to go on.
pub(super) const FREEZE_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 the checkpoint is stored, 1 it is not possible (the reasons are named, nothing was touched), \
2 it failed: no checkpoint is listed, and the container is as it was."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) runtime: RuntimeArgs,
    /// The container: its name or id; without a runtime the pid of a process, whose descendants come along
    #[arg(required_unless_present = "pod", conflicts_with = "pod")]
    name: Option<String>,
    /// A whole pod: its UID, NAMESPACE/NAME, or the id of one of its containers
    ///
    /// All its running containers are frozen at one instant, and are one checkpoint, with their emptyDir volumes and
    /// logs. New connections are kept away meanwhile.
    #[arg(long, value_name = "POD")]
    pub(super) pod: Option<String>,
    /// Containers of the pod, as in its specification (a JSON list): their probes are answered while it is frozen
    #[arg(long, value_name = "FILE", requires = "pod")]
    pub(super) containers: Option<PathBuf>,
    /// Address of the node as the pod sees it; without it, those of the pod's default routes
    #[arg(long, value_name = "ADDRESS", requires = "pod")]
    pub(super) node_address: Vec<IpAddr>,
    /// Where to: file:///DIRECTORY, s3://BUCKET/PREFIX or oci://HOST/REPOSITORY
    #[arg(long, env = "ROCFERRY_STORE", value_name = "URL")]
    to: String,
    /// It goes on (default)
    #[arg(long)]
    leave_running: bool,
    /// It stays frozen until `rocferry-agent thaw`
    #[arg(long, conflicts_with = "leave_running")]
    keep_frozen: bool,
    /// It is killed once the checkpoint is stored
    #[arg(long, conflicts_with_all = ["leave_running", "keep_frozen"])]
    stop: bool,
    /// Keep TCP connections; without it they are closed in the restored copy
    #[arg(long)]
    tcp_established: bool,
    /// Give up after this time, as in 10m: the container goes on then
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// Look for what speaks against it, and stop
    #[arg(long)]
    pub(super) check: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) state: StateArgs,
    #[command(flatten)]
    keys: StoreKeys,
    #[command(flatten)]
    storing: Storing,
}

/// The answer.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// The checkpoint; none if it was not made.
    pub(super) id: Option<String>,
    pub(super) after: After,
    /// Of a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<PodRecord>,
    pub(super) findings: Vec<Finding>,
    pub(super) bytes: u64,
    pub(super) sent_bytes: u64,
    /// Of these, before the dump was done.
    pub(super) sent_during_dump: u64,
    /// How long the container stood still.
    pub(super) frozen_ms: u64,
    pub(super) dump_ms: u64,
    pub(super) total_ms: u64,
}

/// What the steps work on.
pub(super) struct Making<'a> {
    pub(super) driver: &'a dyn Runtime,
    pub(super) container: &'a Container,
    pub(super) after: After,
    /// What is stored.
    pub(super) tree: &'a Path,
    /// Where the container's part of it is: the same, or below it.
    pub(super) folder: PathBuf,
    /// CRIU's logs.
    pub(super) work: PathBuf,
    pub(super) tcp: Tcp,
}

impl Making<'_> {
    pub(super) fn images(&self) -> PathBuf {
        self.folder.join("checkpoint")
    }

    pub(super) fn options(&self) -> DumpOptions {
        DumpOptions {
            images: self.images(),
            work: self.work.clone(),
            tcp: self.tcp,
            has_tcp: preflight::has_tcp(&self.container.processes()),
        }
    }

    /// Is it to be frozen before the dump, and by us?
    ///
    /// Files of a container must be those of the same moment, and what is not to go on must not go on after the dump.
    pub(super) fn freezes(&self) -> bool {
        freezes(self.container, self.after)
    }
}

fn freezes(container: &Container, after: After) -> bool {
    after != After::LeaveRunning || container.oci.is_some()
}

impl Args {
    pub(super) const fn after(&self) -> After {
        match (self.keep_frozen, self.stop) {
            (true, _) => After::KeepFrozen,
            (_, true) => After::Stop,
            _ => After::LeaveRunning,
        }
    }

    pub(super) const fn tcp(&self) -> Tcp {
        match self.tcp_established {
            true => Tcp::Established,
            false => Tcp::Close,
        }
    }

    pub(crate) async fn run(&self) -> Result<Answer, Error> {
        match (&self.pod, &self.name) {
            (Some(pod), _) => super::pod::run(self, pod).await,
            (None, Some(name)) => self.run_container(name).await,
            // The parser lets no such thing through.
            (None, None) => Err(Error::Argument {
                what: "container",
                value: String::new(),
                wanted: "a name, or --pod",
            }),
        }
    }

    /// The store, made if it is not there.
    pub(super) async fn open_store(&self) -> Result<Store, Error> {
        self.keys.open_or_make(&self.to).await
    }

    async fn run_container(&self, name: &str) -> Result<Answer, Error> {
        let begun = Instant::now();
        let after = self.after();
        let journal = self.state.journal()?;
        let driver = self.runtime.driver();
        let container = driver.find(name)?;
        let findings = preflight::checkpoint(
            &container,
            &self.runtime.criu(),
            self.tcp(),
            &journal.spool(),
            freezes(&container, after),
        );
        let mut report = Report {
            after,
            findings,
            ..Report::default()
        };
        if let Some(exit) = self.ends_here(&report) {
            return self.answer(&report, exit);
        }
        let store = self.open_store().await?;
        let mut stop = Interrupt::new(self.timeout)?;
        let mut entry = journal.begin(Work::Checkpoint, after, container.subject(), true)?;
        let spool = entry.record().spool.clone().unwrap_or_default();
        let tree = spool.join("tree");
        let making = Making {
            driver: &*driver,
            container: &container,
            after,
            folder: tree.clone(),
            tree: &tree,
            work: spool.join("work"),
            tcp: self.tcp(),
        };
        let source = || facts::of(&container, &self.runtime.criu(), self.tcp());
        let dump = async |upload: &mut Upload, stop: &mut Interrupt, report: &mut Report| {
            self.dump(&making, &mut entry, upload, stop, report).await
        };
        let made = self
            .make(&store, &tree, &mut stop, &mut report, source, dump)
            .await;
        self.settle(made, entry, report, begun)
    }

    /// After preflight: nothing more is to be done.
    pub(super) fn ends_here(&self, report: &Report) -> Option<Exit> {
        let refused = report.findings.iter().any(|finding| finding.refuses);
        match (refused, self.check) {
            (true, _) => Some(Exit::No),
            (false, true) => Some(Exit::Yes),
            (false, false) => None,
        }
    }

    /// What becomes of it, and the answer.
    pub(super) fn settle(
        &self,
        made: Result<CheckpointId, Error>,
        entry: Entry,
        mut report: Report,
        begun: Instant,
    ) -> Result<Answer, Error> {
        let id = match made {
            Ok(id) => id,
            Err(error) => {
                outcome::undo(entry);
                return Err(error);
            }
        };
        report.id = Some(id.to_string());
        report.total_ms = ms(begun);
        outcome::settle(entry, &id)?;
        self.answer(&report, Exit::Yes)
    }

    /// All until the checkpoint is listed.
    pub(super) async fn make<D>(
        &self,
        store: &Store,
        tree: &Path,
        stop: &mut Interrupt,
        report: &mut Report,
        source: impl FnOnce() -> Source,
        dump: D,
    ) -> Result<CheckpointId, Error>
    where
        D: AsyncFnOnce(&mut Upload, &mut Interrupt, &mut Report) -> Result<(), Error>,
    {
        pass(Point::CheckpointBegun)?;
        let mut facts = self.storing.facts()?;
        let pushing = store.push(self.storing.options());
        let mut upload = stop.or("The checkpoint", pushing).await??;
        let bar = Bar::show("Storing", upload.progress());
        let dumped = dump(&mut upload, stop, report).await;
        let stored = match dumped {
            Ok(()) => {
                facts.source = source();
                store::finish(store, upload, tree, facts, stop).await
            }
            Err(error) => {
                upload.abort().await;
                Err(error)
            }
        };
        drop(bar);
        let (id, now) = stored?;
        report.bytes = now.done;
        report.sent_bytes = now.moved;
        Ok(id)
    }

    /// Until the container is as it is to be while the rest is sent.
    async fn dump(
        &self,
        making: &Making<'_>,
        entry: &mut Entry,
        upload: &mut Upload,
        stop: &mut Interrupt,
        report: &mut Report,
    ) -> Result<(), Error> {
        for dir in [&making.images(), &making.work] {
            make_private(dir)?;
        }
        let cgroup = making.container.cgroup.as_ref();
        if let Some(cgroup) = cgroup {
            let frozen = cgroup.is_frozen()?;
            entry.change(|record| record.was_frozen = frozen)?;
        }
        let begun = Instant::now();
        if let (true, Some(cgroup)) = (making.freezes(), cgroup) {
            entry.advance(Phase::Freezing)?;
            cgroup.freeze(FREEZE_LIMIT)?;
            pass(Point::CheckpointFrozen)?;
        }
        entry.advance(Phase::Criu)?;
        let mut follower = Follower::new(making.tree.to_owned());
        dump::dump(making, upload, &mut follower, stop).await?;
        report.dump_ms = ms(begun);
        report.sent_during_dump = upload.progress().snapshot().moved;
        pass(Point::DumpDone)?;
        saved::save(making)?;
        if let (true, Some(cgroup), After::LeaveRunning, false) = (
            making.freezes(),
            cgroup,
            making.after,
            entry.record().was_frozen,
        ) {
            cgroup.thaw(FREEZE_LIMIT)?;
        }
        report.frozen_ms = ms(begun);
        pass(Point::CheckpointThawed)?;
        Ok(())
    }

    pub(super) fn answer(&self, report: &Report, exit: Exit) -> Result<Answer, Error> {
        let text = match (self.json, &report.id) {
            (true, _) => to_json(report)?,
            (false, Some(id)) => format!("{id}\n"),
            (false, None) => String::new(),
        };
        let mut notes = Vec::new();
        if !self.json {
            notes.extend(report.findings.iter().map(Finding::line));
            if report.id.is_some() {
                notes.push(format!(
                    "{}, {} sent, frozen for {} ms of {} ms",
                    size(report.bytes),
                    size(report.sent_bytes),
                    report.frozen_ms,
                    report.total_ms
                ));
            }
        }
        Ok(Answer { text, notes, exit })
    }
}

pub(super) fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Images hold what was in memory: nobody else may read them.
pub(crate) fn make_private(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| Error::WriteFile {
            path: dir.to_owned(),
            source,
        })
}
