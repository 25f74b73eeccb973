//! The arguments, and the order of things.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocferry_image::manifest::{CheckpointId, FileEntry, Manifest};
use rocferry_store::pull::{Order, PullOptions};
use rocferry_store::{Progress, Store};
use rocferry_topology::Checks;
use serde::Serialize;
use serde_json::Value;

use super::{CGROUP_PREFIX, bundle, criu};
use crate::checkpoint::TCP;
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::fault::{Point, pass};
use crate::format::to_json;
use crate::freeze::Cgroup;
use crate::image::{Bar, StoreKeys, checkpoint_id, duration, size};
use crate::interrupt::Interrupt;
use crate::journal::{After, Entry, Phase, Subject, Work};
use crate::node::{RuntimeArgs, StateArgs};
use crate::preflight::{self, Finding};
use crate::runtime::{RestoreOptions, RuntimeKind, Tcp};
use crate::topology::{self, Fit};
use crate::wrapper;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 it runs, 1 it is not possible here (the reasons are named), 2 it failed: nothing of it is left."
)]
pub(crate) struct Args {
    #[command(flatten)]
    runtime: RuntimeArgs,
    /// The checkpoint
    #[arg(value_parser = checkpoint_id)]
    id: CheckpointId,
    /// Where from: file:///DIRECTORY, s3://BUCKET/PREFIX or oci://HOST/REPOSITORY
    #[arg(long, env = "ROCFERRY_STORE", value_name = "URL")]
    from: String,
    /// Bundle of the new container (runc): its config.json and root file system, the image's files in it
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// Id of the new container; without it the old one
    #[arg(long, value_name = "ID")]
    name: Option<String>,
    /// Give up after this time, as in 10m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Look for what speaks against it before anything is read, and stop
    #[arg(long)]
    check: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    keys: StoreKeys,
}

/// The answer.
#[derive(Debug, Serialize)]
struct Report {
    id: String,
    /// First process; none if it was not restored.
    pid: Option<u32>,
    /// Its cgroup, without a runtime.
    cgroup: Option<Cgroup>,
    findings: Vec<Finding>,
    bytes: u64,
    fetched_bytes: u64,
    pull_ms: u64,
    criu_ms: u64,
}

/// Which files CRIU wants first: what it reads before it makes a process, then memory; contents of GPUs last.
#[derive(Clone, Copy, Debug)]
struct AsRestored;

impl Order for AsRestored {
    fn rank(&self, file: &FileEntry) -> u32 {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        match name {
            _ if name.starts_with("amdgpu-pages-") => 2,
            _ if name.starts_with("pages-") => 1,
            _ => 0,
        }
    }
}

impl Args {
    pub(crate) async fn run(&self) -> Result<Answer, Error> {
        let journal = self.state.journal()?;
        let store = self.keys.open(&self.from).await?;
        let manifest = Arc::new(self.keys.checkpoint(&store, &self.id).await?.manifest);
        let mut report = Report {
            id: self.id.to_string(),
            pid: None,
            cgroup: None,
            findings: preflight::restore(&manifest, &self.runtime.criu(), &journal.spool()),
            bytes: 0,
            fetched_bytes: 0,
            pull_ms: 0,
            criu_ms: 0,
        };
        report.findings.extend(self.misfit(&manifest));
        report.findings.extend(self.unsupported());
        let container = self.container(&manifest);
        // What fails is removed afterwards: that must not be another one.
        if self.runtime.driver().knows(&container)? {
            let text = format!("There is a container {container} already; --name gives another id");
            report.findings.push(Finding::refusal("exists", text));
        }
        let refused = report.findings.iter().any(|finding| finding.refuses);
        if refused || self.check {
            return self.answer(&report, if refused { Exit::No } else { Exit::Yes });
        }
        let mut stop = Interrupt::new(self.timeout)?;
        let subject = Subject {
            runtime: self.runtime.kind(),
            name: container.clone(),
            id: container,
            init: None,
            cgroup: None,
            program: self.runtime.program(),
            root: self.runtime.root(),
        };
        let mut entry = journal.begin(Work::Restore, After::LeaveRunning, subject, true)?;
        let done = self
            .make(&store, &manifest, &mut entry, &mut stop, &mut report)
            .await;
        match done {
            Ok(()) => {
                entry.finish()?;
                let exit = if report.pid.is_some() {
                    Exit::Yes
                } else {
                    Exit::No
                };
                self.answer(&report, exit)
            }
            Err(error) => {
                criu::clear(entry, &*self.runtime.driver());
                Err(error)
            }
        }
    }

    /// Is it a checkpoint of something else?
    fn misfit(&self, manifest: &Manifest) -> Option<Finding> {
        let was = manifest.source.runtime.as_deref()?;
        let bare = was == "bare";
        if bare != (self.runtime.kind() == RuntimeKind::Bare) {
            let text = format!(
                "It is a checkpoint of {}, which --runtime {} cannot restore",
                if bare {
                    "processes without a runtime"
                } else {
                    "a container"
                },
                self.runtime.kind()
            );
            return Some(Finding::refusal("runtime", text));
        }
        None
    }

    /// Is something missing that the runtime needs?
    fn unsupported(&self) -> Option<Finding> {
        match (self.runtime.kind(), &self.bundle) {
            (RuntimeKind::Runc, None) => Some(Finding::refusal(
                "bundle",
                "runc restores into a bundle: name one with --bundle",
            )),
            (RuntimeKind::Podman, _) => Some(Finding::refusal(
                "runtime",
                "Podman makes its containers itself; restoring into them is not there yet",
            )),
            _ => None,
        }
    }

    fn container(&self, manifest: &Manifest) -> String {
        let old = || manifest.source.container_id.clone();
        let name = self.name.clone().or_else(old);
        name.unwrap_or_else(|| self.id.to_string())
    }

    /// Do the GPUs fit that the restored processes will see: all, or those of the bundle?
    fn fit(&self, images: &Path) -> Result<Fit, Error> {
        let spec = self.bundle.as_deref().map(bundle::spec).transpose()?;
        let spec = spec.as_ref().and_then(Value::as_object);
        let sees = |minor| spec.is_none_or(|spec| wrapper::sees(spec, minor));
        let (checks, _) = Checks::from_env_lookup(std::env::var_os::<&str>);
        topology::fit(images, Path::new("live"), sees, checks)
    }

    async fn make(
        &self,
        store: &Store,
        manifest: &Arc<Manifest>,
        entry: &mut Entry,
        stop: &mut Interrupt,
        report: &mut Report,
    ) -> Result<(), Error> {
        pass(Point::RestoreBegun)?;
        let spool = entry.record().spool.clone().unwrap_or_default();
        let (tree, work) = (spool.join("tree"), spool.join("work"));
        crate::checkpoint::make_private(&tree)?;
        crate::checkpoint::make_private(&work)?;
        self.pull(store, manifest, &tree, stop, report).await?;
        pass(Point::RestorePulled)?;
        let images = tree.join("checkpoint");
        if let Fit::No(reasons) = self.fit(&images)? {
            let refusals = reasons
                .into_iter()
                .map(|reason| Finding::refusal("topology", reason));
            report.findings.extend(refusals);
            return Ok(());
        }
        let cgroup = match self.runtime.kind() {
            RuntimeKind::Bare => {
                let name = format!("{CGROUP_PREFIX}{}", entry.record().id);
                Some(Cgroup::create(&name)?)
            }
            RuntimeKind::Runc | RuntimeKind::Podman => None,
        };
        entry.change(|record| {
            record.phase = Phase::Criu;
            record.subject.cgroup.clone_from(&cgroup);
        })?;
        if let (RuntimeKind::Runc, Some(bundle)) = (self.runtime.kind(), &self.bundle) {
            bundle::fill(bundle, &tree)?;
        }
        let options = RestoreOptions {
            images,
            pid_file: work.join("restored.pid"),
            work,
            tcp: dumped_tcp(manifest),
            cgroup: cgroup.clone(),
            bundle: self.bundle.clone(),
            id: entry.record().subject.id.clone(),
        };
        let begun = Instant::now();
        let pid = criu::restore(&*self.runtime.driver(), &options, stop).await?;
        report.criu_ms = ms(begun);
        pass(Point::RestoreDone)?;
        report.pid = Some(pid);
        report.cgroup = cgroup;
        Ok(())
    }

    async fn pull(
        &self,
        store: &Store,
        manifest: &Arc<Manifest>,
        to: &std::path::Path,
        stop: &mut Interrupt,
        report: &mut Report,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let options = PullOptions {
            order: Arc::new(AsRestored),
            ..PullOptions::default()
        };
        let progress = Progress::new();
        let bar = Bar::show("Reading", &progress);
        let pulling = store.pull(Arc::clone(manifest), to, &options, &progress);
        let pulled = stop.or("The restore", pulling).await;
        drop(bar);
        pulled??;
        let now = progress.snapshot();
        report.bytes = now.done;
        report.fetched_bytes = now.moved;
        report.pull_ms = ms(begun);
        Ok(())
    }

    fn answer(&self, report: &Report, exit: Exit) -> Result<Answer, Error> {
        let text = match (self.json, report.pid) {
            (true, _) => to_json(report)?,
            (false, Some(pid)) => format!("{pid}\n"),
            (false, None) => String::new(),
        };
        let mut notes = Vec::new();
        if !self.json {
            notes.extend(report.findings.iter().map(Finding::line));
            if report.pid.is_some() {
                notes.push(format!(
                    "{}, {} fetched in {} ms, restored in {} ms",
                    size(report.bytes),
                    size(report.fetched_bytes),
                    report.pull_ms,
                    report.criu_ms
                ));
            }
        }
        Ok(Answer { text, notes, exit })
    }
}

/// What was said at the dump.
pub(crate) fn dumped_tcp(manifest: &Manifest) -> Tcp {
    let said = manifest.source.annotations.iter();
    let mut said = said.filter(|(name, _)| name == TCP);
    match said.next() {
        Some((_, value)) if value == "established" => Tcp::Established,
        _ => Tcp::Close,
    }
}

fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
