//! The arguments, and the order of things.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocferry_image::manifest::{FileEntry, Manifest, Source};
use rocferry_store::archive::{self, Facts};
use rocferry_store::interchange::Form;
use rocferry_store::pull::{Order, PullOptions};
use rocferry_store::{Progress, Store};
use rocferry_topology::{Checks, RenderMinor};
use serde::Serialize;
use serde_json::Value;

use super::origin::{self, Origin};
use super::{CGROUP_PREFIX, bundle, criu, podman};
use crate::archives;
use crate::checkpoint::{CONTAINER_NAME, TCP};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::fault::{Point, pass};
use crate::format::to_json;
use crate::freeze::Cgroup;
use crate::image::{Bar, StoreKeys, duration, size};
use crate::interrupt::Interrupt;
use crate::journal::{After, Entry, Phase, Subject, Work};
use crate::node::{RuntimeArgs, StateArgs};
use crate::preflight::{self, Finding};
use crate::runtime::{RestoreOptions, RuntimeKind, Tcp};
use crate::settings::SettingsArgs;
use crate::topology::{self, Fit, Place};
use crate::wrapper;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 it runs, 1 it is not possible here (the reasons are named), 2 it failed: nothing of it is left."
)]
pub(crate) struct Args {
    #[command(flatten)]
    runtime: RuntimeArgs,
    /// The checkpoint; none with an archive
    id: Option<String>,
    /// Where from: file:///DIRECTORY, s3://BUCKET/PREFIX or oci://HOST/REPOSITORY; or the path of an archive of Podman, CRI-O,
    /// containerd or `image export`
    #[arg(long, env = "ROCFERRY_STORE", value_name = "URL|FILE")]
    from: String,
    /// The archive is an OCI image (the tar of its layout) with a checkpoint in it
    #[arg(long)]
    image: bool,
    /// Restore an archive, which nobody has signed: the administrator's settings must allow that
    #[arg(long)]
    unsigned: bool,
    /// Connections of an archive go on: it does not say itself how it was dumped
    #[arg(long)]
    tcp_established: bool,
    /// GPUs that a container of Podman may be given, by render node as in 128; without it any that fit
    #[arg(long, value_name = "MINOR", value_delimiter = ',')]
    gpus: Option<Vec<u32>>,
    /// Bundle of the new container (runc): its config.json and root file system, the image's files in it
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// Id of the new container, with Podman its name; without it the old one
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
    settings: SettingsArgs,
    #[command(flatten)]
    keys: StoreKeys,
}

/// A checkpoint that can be read.
enum Opened {
    Store {
        store: Store,
        manifest: Arc<Manifest>,
    },
    Archive {
        file: File,
        form: Form,
    },
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
    pub(crate) const fn state(&self) -> &StateArgs {
        &self.state
    }

    /// Nothing is to be done.
    pub(crate) const fn is_check(&self) -> bool {
        self.check
    }

    pub(crate) async fn run(&self) -> Result<Answer, Error> {
        let journal = self.state.journal()?;
        let opened = self.open().await?;
        let (id, container, findings) = match &opened {
            Opened::Store { manifest, .. } => {
                let criu = self.runtime.criu();
                let mut findings = preflight::restore(manifest, &criu, &journal.spool());
                let container = self.container(&manifest.source);
                let container = container.unwrap_or_else(|| manifest.id.to_string());
                findings.extend(self.against(&manifest.source, &container)?);
                (manifest.id.to_string(), container, findings)
            }
            Opened::Archive { file, .. } => {
                // Whose it is is known when it is read.
                let container = self.name.clone().unwrap_or_else(|| self.from.clone());
                let bytes = file.metadata().map_or(0, |meta| meta.len());
                let findings = preflight::archive(bytes, &journal.spool());
                let findings = findings.into_iter().chain(self.unsupported());
                (self.from.clone(), container, findings.collect())
            }
        };
        let mut report = Report {
            id,
            pid: None,
            cgroup: None,
            findings,
            bytes: 0,
            fetched_bytes: 0,
            pull_ms: 0,
            criu_ms: 0,
        };
        let refused = |report: &Report| report.findings.iter().any(|finding| finding.refuses);
        if refused(&report) || self.check {
            if let (false, Opened::Archive { file, form }) = (refused(&report), opened) {
                let archive = archives::look(file, form).await?;
                report.bytes = archive.bytes;
                let container = self.container(&archive.source);
                let container = container.unwrap_or_else(|| self.from.clone());
                let against = self.against(&archive.source, &container)?;
                report.findings.extend(against);
            }
            let exit = if refused(&report) {
                Exit::No
            } else {
                Exit::Yes
            };
            return self.answer(&report, exit);
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
        let done = self.make(opened, &mut entry, &mut stop, &mut report).await;
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

    async fn open(&self) -> Result<Opened, Error> {
        Ok(
            match Origin::of(&self.from, self.id.as_deref(), self.image)? {
                Origin::Store { url, id } => {
                    let store = self.keys.open(&url).await?;
                    let manifest = Arc::new(self.keys.checkpoint(&store, &id).await?.manifest);
                    Opened::Store { store, manifest }
                }
                Origin::Archive { path, form } => Opened::Archive {
                    file: origin::open(&path, self.unsigned, &self.settings)?,
                    form,
                },
            },
        )
    }

    /// What speaks against making this of it.
    fn against(&self, source: &Source, container: &str) -> Result<Vec<Finding>, Error> {
        let mut found: Vec<Finding> = self.misfit(source).into_iter().collect();
        found.extend(self.unsupported());
        // What fails is removed afterwards: that must not be another one.
        if self.runtime.driver().knows(container)? {
            let text = format!("There is a container {container} already; --name gives another id");
            found.push(Finding::refusal("exists", text));
        }
        Ok(found)
    }

    /// Is it a checkpoint of something else?
    fn misfit(&self, source: &Source) -> Option<Finding> {
        let bare = source.runtime.as_deref() == Some("bare");
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
            (RuntimeKind::Podman | RuntimeKind::Bare, Some(_)) => Some(Finding::refusal(
                "bundle",
                format!("--runtime {} takes no bundle", self.runtime.kind()),
            )),
            _ => None,
        }
    }

    /// The new container.
    fn container(&self, source: &Source) -> Option<String> {
        let annotation = |name: &str| {
            let mut all = source.annotations.iter();
            let found = all.find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        let old = || match self.runtime.kind() {
            // Its id is Podman's to choose.
            RuntimeKind::Podman => {
                annotation(CONTAINER_NAME).or_else(|| annotation(archive::CONTAINER_NAME))
            }
            _ => source.container_id.clone(),
        };
        self.name.clone().or_else(old)
    }

    /// Do the GPUs fit that the restored processes will see: all, or those of the bundle?
    fn fit(&self, images: &Path) -> Result<Fit, Error> {
        let spec = self.bundle.as_deref().map(bundle::spec).transpose()?;
        let spec = spec.as_ref().and_then(Value::as_object);
        let sees = |minor| spec.is_none_or(|spec| wrapper::sees(spec, minor));
        let (checks, _) = Checks::from_env_lookup(std::env::var_os::<&str>);
        topology::fit(images, Path::new("live"), sees, checks)
    }

    /// Gets the files; then all but CRIU is looked at once more. True: it goes on.
    async fn get(
        &self,
        opened: Opened,
        tree: &Path,
        entry: &mut Entry,
        stop: &mut Interrupt,
        report: &mut Report,
    ) -> Result<Option<Source>, Error> {
        match opened {
            Opened::Store { store, manifest } => {
                self.pull(&store, &manifest, tree, stop, report).await?;
                Ok(Some(manifest.source.clone()))
            }
            Opened::Archive { file, form } => {
                let begun = Instant::now();
                let unpacking = archives::unpack(file, form, tree);
                let archive = stop.or("The restore", unpacking).await??;
                report.bytes = archive.bytes;
                report.fetched_bytes = archive.bytes;
                report.pull_ms = ms(begun);
                if let Some(container) = self.container(&archive.source) {
                    entry.change(|record| record.subject.id = container)?;
                }
                let gpu = topology::has_gpus(&tree.join("checkpoint"))?;
                let spool = tree.parent().unwrap_or(tree);
                let mut found =
                    preflight::unpacked(&archive.source, gpu, &self.runtime.criu(), spool);
                found.extend(self.against(&archive.source, &entry.record().subject.id)?);
                if self.runtime.kind() == RuntimeKind::Runc && tree.join("volumes").is_dir() {
                    let text = "Volumes of the archive are not put into the bundle: what they held must be there already";
                    found.push(Finding::note("volumes", text));
                }
                let refused = found.iter().any(|finding| finding.refuses);
                report.findings.extend(found);
                Ok((!refused).then_some(archive.source))
            }
        }
    }

    async fn make(
        &self,
        opened: Opened,
        entry: &mut Entry,
        stop: &mut Interrupt,
        report: &mut Report,
    ) -> Result<(), Error> {
        pass(Point::RestoreBegun)?;
        let spool = entry.record().spool.clone().unwrap_or_default();
        let (tree, work) = (spool.join("tree"), spool.join("work"));
        crate::checkpoint::make_private(&tree)?;
        crate::checkpoint::make_private(&work)?;
        let Some(source) = self.get(opened, &tree, entry, stop, report).await? else {
            return Ok(());
        };
        pass(Point::RestorePulled)?;
        if let (RuntimeKind::Runc, Some(folder)) = (self.runtime.kind(), &self.bundle) {
            let found = bundle::differences(folder, &tree)?;
            let refused = found.iter().any(|finding| finding.refuses);
            report.findings.extend(found);
            if refused {
                return Ok(());
            }
        }
        let images = tree.join("checkpoint");
        let mut archive = None;
        if self.runtime.kind() == RuntimeKind::Podman {
            match self.podman(&tree, &source)? {
                Ok(path) => archive = Some(path),
                Err(findings) => {
                    report.findings.extend(findings);
                    return Ok(());
                }
            }
        } else if let Fit::No(reasons) = self.fit(&images)? {
            report.findings.extend(misfits(reasons));
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
            tcp: match self.tcp_established {
                true => Tcp::Established,
                false => dumped_tcp(&source),
            },
            cgroup: cgroup.clone(),
            bundle: self.bundle.clone(),
            archive,
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

    /// The archive for Podman, with GPUs of this node; or why there is none.
    fn podman(&self, tree: &Path, source: &Source) -> Result<Result<PathBuf, Vec<Finding>>, Error> {
        if let Some(reason) = podman::unfit(tree)? {
            return Ok(Err(vec![Finding::refusal("runtime", reason)]));
        }
        if let Some((id, name)) = podman::image(tree)?
            && !self.runtime.driver().has_image(&id)?
        {
            let reason = format!(
                "The image {name} with the ID {id}, from which the container was made, is not here: pull it, or carry it \
over with podman save and podman load; another one of that name will not do"
            );
            return Ok(Err(vec![Finding::refusal("image", reason)]));
        }
        let (checks, _) = Checks::from_env_lookup(std::env::var_os::<&str>);
        let may = |minor: RenderMinor| match &self.gpus {
            Some(gpus) => gpus.contains(&minor.get()),
            None => true,
        };
        let placed = topology::place(&tree.join("checkpoint"), Path::new("live"), may, checks)?;
        let gpus = match placed {
            Place::NoGpus => None,
            Place::On { gpus, of } => {
                if let Some(reason) = podman::limit(tree, gpus.len(), of)? {
                    return Ok(Err(vec![Finding::refusal("runtime", reason)]));
                }
                Some(gpus)
            }
            Place::Nowhere(reasons) => return Ok(Err(misfits(reasons).collect())),
        };
        let facts = Facts::from_source(source);
        podman::archive(tree, gpus.as_deref(), &facts).map(Ok)
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

fn misfits(reasons: Vec<String>) -> impl Iterator<Item = Finding> {
    let reasons = reasons.into_iter();
    reasons.map(|reason| Finding::refusal("topology", reason))
}

/// What was said at the dump.
pub(crate) fn dumped_tcp(source: &Source) -> Tcp {
    let said = source.annotations.iter();
    let mut said = said.filter(|(name, _)| name == TCP);
    match said.next() {
        Some((_, value)) if value == "established" => Tcp::Established,
        _ => Tcp::Close,
    }
}

fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
