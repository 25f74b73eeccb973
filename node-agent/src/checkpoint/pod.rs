//! The same for a whole pod: `checkpoint --pod`.
//!
//! ```text
//! preflight → journal → connections away → pod frozen → each container frozen, pod thawed
//!   → CRIU, one container after the other → (pod frozen again, volumes synced) → files
//!   → (connections back, all thawed) → rest of the upload → listed → outcome
//! ```
//!
//! All containers stop at the instant at which the pod's cgroup is frozen. Theirs stay frozen until all are dumped, and
//! the files are saved, so that what one of them has is what the others know of.

mod backlog;
mod files;

use std::path::PathBuf;
use std::time::Instant;

use rocferry_store::push::{Follower, Upload};

use super::args::{Args, FREEZE_LIMIT, Making, Report, make_private, ms};
use super::{dump, facts};
use crate::cli::Answer;
use crate::error::Error;
use crate::fault::{Point, pass};
use crate::interrupt::Interrupt;
use crate::journal::{After, Entry, Phase, PodPart, PodParts, Subject, Work};
use crate::pod::{Pod, PodError, answering, hold, volumes};
use crate::preflight::{self, Finding};
use crate::runtime::{Runc, RuntimeKind, Tcp};

/// What the steps work on.
struct Whole<'a> {
    driver: &'a Runc,
    pod: &'a Pod,
    after: After,
    tree: PathBuf,
    work: PathBuf,
    tcp: Tcp,
    /// Content of the file with the pod's containers.
    specification: Option<Vec<u8>>,
}

pub(super) async fn run(args: &Args, wanted: &str) -> Result<Answer, Error> {
    let begun = Instant::now();
    let after = args.after();
    let journal = args.state.journal()?;
    let driver = args.runtime.of_pods()?;
    let pod = Pod::find(&driver, wanted)?;
    let mut report = Report {
        after,
        ..Report::default()
    };
    let mut specification = None;
    let rooms = match &args.containers {
        None => None,
        Some(file) => match crate::probes::rooms(file) {
            Ok((rooms, content)) => {
                specification = Some(content);
                Some(rooms)
            }
            Err(error @ crate::probes::ProbeError::Unanswerable { .. }) => {
                let text = crate::error::causes(&error);
                report.findings.push(Finding::refusal("probes", text));
                None
            }
            Err(error) => return Err(error.into()),
        },
    };
    report.findings.extend(preflight::pod(
        &pod,
        &args.runtime.criu(),
        args.tcp(),
        &journal.spool(),
        rooms.as_deref(),
        after,
    ));
    if let Some(exit) = args.ends_here(&report) {
        return args.answer(&report, exit);
    }
    let store = args.open_store().await?;
    let mut stop = Interrupt::new(args.timeout)?;
    let frozen = pod.cgroup.is_told_to_freeze()?;
    let parts = parts(&pod)?;
    let mut entry = journal.begin_pod(Work::Checkpoint, after, subject(&pod), parts, true)?;
    entry.change(|record| record.was_frozen = frozen)?;
    let spool = entry.record().spool.clone().unwrap_or_default();
    let whole = Whole {
        driver: &driver,
        pod: &pod,
        after,
        tree: spool.join("tree"),
        work: spool.join("work"),
        tcp: args.tcp(),
        specification,
    };
    let source = || facts::of_pod(&pod, &args.runtime.criu(), args.tcp());
    let dump = async |upload: &mut Upload, stop: &mut Interrupt, report: &mut Report| {
        whole.dump(args, &mut entry, upload, stop, report).await
    };
    let tree = whole.tree.clone();
    let made = args
        .make(&store, &tree, &mut stop, &mut report, source, dump)
        .await;
    args.settle(made, entry, report, begun)
}

/// The pod, as the journal names it.
pub(crate) fn subject(pod: &Pod) -> Subject {
    Subject {
        runtime: RuntimeKind::Runc,
        name: pod.full_name(),
        id: pod.uid.to_string(),
        init: pod.network(),
        cgroup: Some(pod.cgroup.clone()),
        program: None,
        root: None,
    }
}

/// Its containers, as the journal names them.
pub(crate) fn parts(pod: &Pod) -> Result<PodParts, Error> {
    let part = |member: &crate::pod::Member| {
        let cgroup = member.container.cgroup.as_ref();
        Ok(PodPart {
            subject: member.container.subject(),
            was_frozen: cgroup.map_or(Ok(false), crate::freeze::Cgroup::is_told_to_freeze)?,
        })
    };
    let parts = pod.members.iter().map(part);
    Ok(PodParts {
        parts: parts.collect::<Result<_, Error>>()?,
        answering: None,
    })
}

impl Whole<'_> {
    fn makings(&self) -> Vec<Making<'_>> {
        let making = |member| {
            let name = crate::pod::Member::folder(member);
            Making {
                driver: self.driver,
                container: &member.container,
                after: self.after,
                tree: &self.tree,
                folder: self.tree.join(name),
                work: self.work.join(member.name.as_str()),
                tcp: self.tcp,
            }
        };
        self.pod.members.iter().map(making).collect()
    }

    /// Until the pod is as it is to be while the rest is sent.
    async fn dump(
        &self,
        args: &Args,
        entry: &mut Entry,
        upload: &mut Upload,
        stop: &mut Interrupt,
        report: &mut Report,
    ) -> Result<(), Error> {
        let makings = self.makings();
        for making in &makings {
            make_private(&making.images())?;
            make_private(&making.work)?;
        }
        self.keep_others_away(args, entry)?;
        pass(Point::PodAnswering)?;
        let waiting = backlog::accepted(self.pod);
        stop.or("The checkpoint", waiting).await?;
        let begun = Instant::now();
        self.freeze(entry)?;
        entry.advance(Phase::Criu)?;
        let mut follower = Follower::new(self.tree.clone());
        for (at, making) in makings.iter().enumerate() {
            dump::dump(making, upload, &mut follower, stop).await?;
            if at == 0 {
                pass(Point::PodContainerDumped)?;
            }
        }
        report.dump_ms = ms(begun);
        report.sent_during_dump = upload.progress().snapshot().moved;
        pass(Point::DumpDone)?;
        // Before anything could take a container's own freeze away.
        let stays = self.after != After::LeaveRunning;
        if stays || entry.record().was_frozen {
            self.pod.cgroup.freeze(FREEZE_LIMIT)?;
            pass(Point::PodFrozenAgain)?;
        }
        let found = self.volumes()?;
        report.pod = Some(files::save(self.pod, &makings, &found, &self.tree)?);
        if stays {
            let written = files::writable(self.pod);
            let synced = tokio::task::spawn_blocking(move || files::sync(&written));
            match stop.or("The checkpoint", synced).await? {
                Ok(synced) => synced?,
                Err(error) => {
                    return Err(Error::Runtime {
                        source: std::io::Error::other(error),
                    });
                }
            }
        } else if let Some(pod) = &entry.record().pod {
            hold::release(entry.record(), pod)?;
        }
        report.frozen_ms = ms(begun);
        pass(Point::CheckpointThawed)?;
        Ok(())
    }

    /// New connections do not get in any more, where the network is the pod's own.
    fn keep_others_away(&self, args: &Args, entry: &mut Entry) -> Result<(), Error> {
        let Some(network) = self.pod.network() else {
            return Ok(());
        };
        if preflight::shares_network(network.pid) {
            return Ok(());
        }
        let specification = self.specification.as_deref();
        if specification.is_none() && !backlog::listens(self.pod) {
            return Ok(());
        }
        answering::begin(entry, network, specification, &args.node_address)
    }

    /// All at one instant; then each by itself, and no longer by the pod.
    fn freeze(&self, entry: &mut Entry) -> Result<(), Error> {
        entry.advance(Phase::Freezing)?;
        self.pod.cgroup.freeze(FREEZE_LIMIT)?;
        pass(Point::PodFrozen)?;
        self.pod.is_alone()?;
        for member in &self.pod.members {
            if let Some(cgroup) = &member.container.cgroup {
                cgroup.freeze(FREEZE_LIMIT)?;
            }
        }
        self.pod.cgroup.thaw(FREEZE_LIMIT)?;
        for member in &self.pod.members {
            let cgroup = member.container.cgroup.as_ref();
            if cgroup.is_some_and(|cgroup| !cgroup.is_frozen().unwrap_or(false)) {
                return Err(Error::Incomplete {
                    reason: format!("container {} does not stand still", member.name),
                });
            }
        }
        Ok(pass(Point::CheckpointFrozen)?)
    }

    fn volumes(&self) -> Result<Vec<crate::pod::FoundVolume>, Error> {
        let mounts = self.pod.members.iter().map(|member| {
            let oci = member.container.oci.as_ref();
            (
                &member.name,
                oci.map(crate::runtime::Oci::mounts).unwrap_or_default(),
            )
        });
        volumes(mounts).map_err(|reason| PodError::Volume { reason }.into())
    }
}
