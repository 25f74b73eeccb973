//! `rocferry-agent prepare`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rocferry_image::manifest::{Binding, CheckpointId, Manifest};
use rocferry_store::envelope::ExpectedBinding;
use rocferry_store::pull::PullOptions;
use rocferry_store::{Progress, Store, StoreError};
use rocferry_topology::Checks;
use serde::Serialize;

use super::discard::discard;
use super::folder::{Prepared, PreparedContainer, Restores};
use super::tickets::{Draft, drafts};
use crate::cli::{Answer, Exit};
use crate::error::{Error, causes};
use crate::fault::{Point, pass};
use crate::format::to_json;
use crate::image::{Bar, StoreKeys, checkpoint_id, duration, size};
use crate::interrupt::Interrupt;
use crate::journal::{After, Subject, Work};
use crate::node::{CriuArgs, StateArgs};
use crate::preflight::{self, Finding};
use crate::restore::dumped_tcp;
use crate::runtime::{self, RuntimeKind};
use crate::ticket::{AfterUse, ContainerName, InvalidName, Key, PodUid, Tcp, TicketFolder};
use crate::topology::{self, Together};

/// Annotation that names the container.
const CONTAINER: &str = "io.kubernetes.cri.container-name";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 the pod's containers are restored when they are made, 1 it is not possible here (the reasons are named), \
2 it failed. After 1 and 2 nothing is left."
)]
pub(crate) struct Args {
    /// The checkpoint
    #[arg(value_parser = checkpoint_id)]
    id: CheckpointId,
    /// Where from: file:///DIRECTORY, s3://BUCKET/PREFIX or oci://HOST/REPOSITORY
    #[arg(long, env = "ROCFERRY_STORE", value_name = "URL")]
    from: String,
    /// The pod whose containers are to be restored
    #[arg(long, value_name = "UID")]
    pod_uid: PodUid,
    /// Whom the checkpoint must be made for
    #[arg(long = "for", value_name = "NAMESPACE/POD", value_parser = whom, required_unless_present = "unsigned")]
    whom: Option<(String, String)>,
    /// UID of that namespace, if it matters
    #[arg(long, value_name = "UID", requires = "whom")]
    namespace_uid: Option<String>,
    /// A container has another name in the new pod
    #[arg(long, value_name = "OLD=NEW", value_parser = names)]
    map: Vec<(ContainerName, ContainerName)>,
    /// They come back frozen, and stay so until `thaw --pod-uid`
    #[arg(long)]
    held: bool,
    /// When a container is made anew after it has ended
    #[arg(long, value_enum, default_value_t)]
    on_container_restart: OnRestart,
    /// A check of the GPUs that is left out, as KFD_FW_VER_CHECK
    #[arg(long, value_name = "CHECK")]
    without_check: Vec<String>,
    /// Take a checkpoint that nobody signed, or that is made for nobody: it runs as root what is in it
    #[arg(long)]
    unsigned: bool,
    /// Give up after this time, as in 10m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    criu: CriuArgs,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    keys: StoreKeys,
}

/// What a `create` after the container's end means.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OnRestart {
    /// It starts as any other container
    #[default]
    ColdStart,
    /// It is restored again from the same checkpoint
    RestoreAgain,
    /// It does not start
    Refuse,
}

impl From<OnRestart> for AfterUse {
    fn from(choice: OnRestart) -> Self {
        match choice {
            OnRestart::ColdStart => Self::ColdStart,
            OnRestart::RestoreAgain => Self::RestoreAgain,
            OnRestart::Refuse => Self::Refuse,
        }
    }
}

/// The answer.
#[derive(Debug, Default, Serialize)]
struct Report {
    checkpoint: String,
    containers: Vec<String>,
    /// Render minors of GPUs that would do, no GPU for two; the container may be given others.
    gpus: BTreeMap<String, Vec<u32>>,
    findings: Vec<Finding>,
    bytes: u64,
    fetched_bytes: u64,
    total_ms: u64,
}

impl Report {
    fn is_refused(&self) -> bool {
        self.findings.iter().any(|finding| finding.refuses)
    }
}

impl Args {
    pub(crate) async fn run(&self) -> Result<Answer, Error> {
        let begun = Instant::now();
        let journal = self.state.journal()?;
        let restores = Restores::below(self.state.folder());
        let mut report = Report {
            checkpoint: self.id.to_string(),
            ..Report::default()
        };
        if let Some(known) = restores.read(&self.pod_uid)?.filter(|known| known.complete) {
            return self.again(report, &known);
        }
        let store = self.keys.open(&self.from).await?;
        let manifest = self
            .keys
            .checkpoint_for(&store, &self.id, self.binding(), self.unsigned)
            .await?
            .manifest;
        let manifest = Arc::new(manifest);
        report.findings = preflight::restore(&manifest, &self.criu.criu(), &journal.spool());
        if manifest.source.runtime.as_deref() == Some("bare") {
            let text = "It is a checkpoint of processes without a runtime";
            report.findings.push(Finding::refusal("runtime", text));
        }
        if report.is_refused() {
            return self.answer(&report, Exit::No);
        }
        let mut stop = Interrupt::new(self.timeout)?;
        let subject = subject(&self.pod_uid);
        let entry = journal.begin(Work::Prepare, After::LeaveRunning, subject, false)?;
        let made = self.make(&store, &manifest, &restores, &mut stop, &mut report);
        let made = made.await;
        if made.is_err() || report.is_refused() {
            // The first error is the answer.
            if let Err(error) = discard(self.state.folder(), &self.pod_uid, true) {
                tracing::error!(
                    error = causes(&error),
                    "What was prepared so far could not be removed; `rocferry-agent discard` tries again"
                );
                made?;
                return self.answer(&report, Exit::No);
            }
        }
        entry.finish()?;
        made?;
        report.total_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let exit = if report.is_refused() {
            Exit::No
        } else {
            Exit::Yes
        };
        self.answer(&report, exit)
    }

    /// It is prepared already, for this or another checkpoint.
    fn again(&self, mut report: Report, known: &Prepared) -> Result<Answer, Error> {
        if known.checkpoint == report.checkpoint && known.held == self.held {
            let names = known.containers.iter();
            report.containers = names.map(|one| one.name.to_string()).collect();
            return self.answer(&report, Exit::Yes);
        }
        let text = format!(
            "Pod {} is prepared from {} already; `rocferry-agent discard` removes that",
            self.pod_uid, known.checkpoint
        );
        report.findings.push(Finding::refusal("prepared", text));
        self.answer(&report, Exit::No)
    }

    fn binding(&self) -> ExpectedBinding {
        let (namespace, pod) = self.whom.clone().unzip();
        ExpectedBinding {
            namespace,
            namespace_uid: self.namespace_uid.clone(),
            pod,
            container: None,
            free: self.unsigned,
            // Whom it is for was not asked.
            foreign: self.whom.is_none(),
        }
    }

    async fn make(
        &self,
        store: &Store,
        manifest: &Arc<Manifest>,
        restores: &Restores,
        stop: &mut Interrupt,
        report: &mut Report,
    ) -> Result<(), Error> {
        pass(Point::PrepareBegun)?;
        let uid = &self.pod_uid;
        let mut prepared = Prepared::new(uid.clone(), report.checkpoint.clone(), self.held);
        // What another one has left.
        if restores
            .read(uid)?
            .is_some_and(|old| old.checkpoint != prepared.checkpoint)
        {
            restores.remove(uid)?;
        }
        restores.write(&prepared)?;
        let tree = restores.tree(uid);
        self.pull(store, manifest, &tree, stop, report).await?;
        pass(Point::PreparePulled)?;
        let drafts = drafts(&tree, &prepared.checkpoint, self.single(manifest))?;
        for (old, _) in &self.map {
            if !drafts.iter().any(|draft| draft.was == *old) {
                let text = format!("The checkpoint has no container {old}");
                report.findings.push(Finding::refusal("map", text));
            }
        }
        let (checks, _) = Checks::from_env_lookup(std::env::var_os::<&str>);
        self.plan(&drafts, checks, report)?;
        if report.is_refused() {
            return Ok(());
        }
        prepared.containers = drafts
            .iter()
            .map(|draft| PreparedContainer {
                name: self.new_name(&draft.was),
                was: draft.was.clone(),
            })
            .collect();
        // Before the tickets: whoever finds this half done knows which there may be.
        restores.write(&prepared)?;
        self.put_tickets(manifest, &prepared, drafts)?;
        prepared.complete = true;
        restores.write(&prepared)?;
        let names = prepared.containers.iter();
        report.containers = names.map(|one| one.name.to_string()).collect();
        Ok(())
    }

    /// Chooses GPUs for all of them at once. Who gives them out chooses as it likes; the wrapper looks at what it was.
    fn plan(&self, drafts: &[Draft], checks: Checks, report: &mut Report) -> Result<(), Error> {
        let images: Vec<&Path> = drafts
            .iter()
            .map(|one| one.ticket.images.as_path())
            .collect();
        match topology::fit_together(&images, Path::new("live"), checks)? {
            Together::On(gpus) => {
                let each = drafts.iter().zip(gpus);
                report.gpus = each
                    .map(|(draft, gpus)| {
                        let name = self.new_name(&draft.was).to_string();
                        let minors = gpus.iter().map(|minor| minor.get());
                        (name, minors.collect())
                    })
                    .collect();
            }
            Together::Nowhere(reasons) => {
                let refusals = reasons.into_iter().map(|(at, reason)| {
                    let text = match at.and_then(|at| drafts.get(at)) {
                        Some(draft) => format!("Container {}: {reason}", draft.was),
                        None => reason,
                    };
                    Finding::refusal("topology", text)
                });
                report.findings.extend(refusals);
            }
            Together::Open => report.findings.push(Finding::note(
                "topology",
                "Each container finds GPUs here; whether all of them do at once was not found out",
            )),
        }
        Ok(())
    }

    fn put_tickets(
        &self,
        manifest: &Manifest,
        prepared: &Prepared,
        drafts: Vec<Draft>,
    ) -> Result<(), Error> {
        let tickets = TicketFolder::new(self.state.folder());
        for (draft, key) in drafts.into_iter().zip(prepared.keys()) {
            let mut ticket = draft.ticket;
            ticket.held = self.held;
            ticket.on_container_restart = self.on_container_restart.into();
            ticket.checks_off.clone_from(&self.without_check);
            ticket.criu.tcp = match dumped_tcp(&manifest.source) {
                runtime::Tcp::Established => Tcp::Established,
                runtime::Tcp::Close => Tcp::Close,
            };
            tickets.put(&key, &ticket)?;
            pass(Point::PrepareTicket)?;
        }
        Ok(())
    }

    fn new_name(&self, was: &ContainerName) -> ContainerName {
        let mut map = self.map.iter();
        let mapped = map.find(|(old, _)| old == was).map(|(_, new)| new);
        mapped.unwrap_or(was).clone()
    }

    /// The name of the container, if it is the checkpoint of one.
    fn single(&self, manifest: &Manifest) -> Option<ContainerName> {
        let bound = match &manifest.binding {
            Binding::Pod { container, .. } => container.parse().ok(),
            Binding::Free => None,
        };
        let said = manifest.source.annotations.iter();
        let mut said = said.filter(|(name, _)| name == CONTAINER);
        let said = said.next().and_then(|(_, value)| value.parse().ok());
        let mapped = match self.map.as_slice() {
            [(old, _)] => Some(old.clone()),
            _ => None,
        };
        bound.or(said).or(mapped)
    }

    async fn pull(
        &self,
        store: &Store,
        manifest: &Arc<Manifest>,
        to: &Path,
        stop: &mut Interrupt,
        report: &mut Report,
    ) -> Result<(), Error> {
        // On the disk: a reboot must find them under the tickets.
        let options = PullOptions {
            durable: true,
            ..PullOptions::default()
        };
        let progress = Progress::new();
        let bar = Bar::show("Reading", &progress);
        let pull = || store.pull(Arc::clone(manifest), to, &options, &progress);
        let mut pulled = stop.or("The preparation", pull()).await?;
        if matches!(pulled, Err(StoreError::Occupied { .. })) {
            // A whole copy, of which the one that made it knew nothing any more.
            Restores::below(self.state.folder()).remove_tree(&self.pod_uid)?;
            pulled = stop.or("The preparation", pull()).await?;
        }
        drop(bar);
        pulled?;
        let now = progress.snapshot();
        report.bytes = now.done;
        report.fetched_bytes = now.moved;
        Ok(())
    }

    fn answer(&self, report: &Report, exit: Exit) -> Result<Answer, Error> {
        let text = match self.json {
            true => to_json(report)?,
            false => report
                .containers
                .iter()
                .map(|name| format!("{name}\n"))
                .collect(),
        };
        let mut notes = Vec::new();
        if !self.json {
            notes.extend(report.findings.iter().map(Finding::line));
            if exit == Exit::Yes && report.total_ms > 0 {
                notes.push(format!(
                    "{}, {} fetched, in {} ms",
                    size(report.bytes),
                    size(report.fetched_bytes),
                    report.total_ms
                ));
            }
        }
        Ok(Answer { text, notes, exit })
    }
}

/// A pod to come, in the journal.
pub(super) fn subject(uid: &PodUid) -> Subject {
    Subject {
        runtime: RuntimeKind::Runc,
        name: uid.to_string(),
        id: Key::pod_record(uid),
        init: None,
        cgroup: None,
        program: None,
        root: None,
    }
}

fn whom(text: &str) -> Result<(String, String), String> {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, pod] if !namespace.is_empty() && !pod.is_empty() => {
            Ok(((*namespace).to_owned(), (*pod).to_owned()))
        }
        _ => Err("NAMESPACE/POD is expected".to_owned()),
    }
}

fn names(text: &str) -> Result<(ContainerName, ContainerName), String> {
    let (old, new) = text.split_once('=').ok_or("OLD=NEW is expected")?;
    let parse = |name: &str| {
        let name: Result<ContainerName, InvalidName> = name.parse();
        name.map_err(|error| error.to_string())
    };
    Ok((parse(old)?, parse(new)?))
}
