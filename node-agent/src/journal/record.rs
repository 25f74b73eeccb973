//! A record.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::freeze::Cgroup;
use crate::process::ProcessId;
use crate::runtime::RuntimeKind;

/// Version of records that this code writes, and the newest that it reads.
pub(super) const VERSION: u32 = 2;

/// One piece of work on one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of the format.
    pub version: u32,
    /// Name of the record.
    pub id: String,
    /// The boot in which it was written: what was frozen before is gone.
    pub boot: String,
    /// Milliseconds since 1970.
    pub begun_ms: u64,
    /// The container.
    pub subject: Subject,
    /// What is done with it.
    pub work: Work,
    /// How far that is.
    pub phase: Phase,
    /// What becomes of the container in the end.
    pub after: After,
    /// It was frozen by somebody before: that is not ours to take back.
    pub was_frozen: bool,
    /// Folder with images, ours alone.
    pub spool: Option<PathBuf>,
    /// The checkpoint in its store.
    pub checkpoint: Option<String>,
    /// Cgroups of the containers of a held pod that is thawed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Cgroup>,
    /// Of a pod: its parts. The subject is the pod then, `was_frozen` is about its cgroup. Since version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodParts>,
}

impl Record {
    /// A pod that was stopped: its cgroup stays frozen until it is gone, so that no cold copy of it runs, and this is
    /// the record of that.
    #[must_use]
    pub fn keeps_others_out(&self) -> bool {
        self.pod.is_some() && self.after == After::Stop && self.work == Work::Checkpoint
    }

    /// Does it concern this container, by itself or as one of a pod?
    #[must_use]
    pub fn concerns(&self, subject: &Subject) -> bool {
        let parts = self.pod.iter().flat_map(|pod| &pod.parts);
        self.subject.is_same_as(subject)
            || parts
                .into_iter()
                .any(|part| part.subject.is_same_as(subject))
    }
}

/// What a pod is made of, as far as it must be found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodParts {
    /// Its containers, in the order in which they were created.
    pub parts: Vec<PodPart>,
    /// Connections are kept away, and probes answered.
    pub answering: Option<Answering>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodPart {
    /// The container.
    pub subject: Subject,
    /// It was frozen by somebody before, itself and not through its pod.
    pub was_frozen: bool,
}

/// Who keeps connections away from a pod and answers its probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answering {
    /// A process of the pod: in its network that is done.
    pub network: ProcessId,
    /// What the process that does it says. It is known by having this open.
    pub log: PathBuf,
    /// The containers of the pod's specification, if there are probes: a file of the journal's.
    pub containers: Option<PathBuf>,
    /// The node's addresses, if they were given.
    pub node: Vec<IpAddr>,
}

/// A container, as far as it must be found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Its runtime.
    pub runtime: RuntimeKind,
    /// As the user named it.
    pub name: String,
    /// Its id in the runtime.
    pub id: String,
    /// Its first process; none while it is being restored.
    pub init: Option<ProcessId>,
    /// Its own cgroup, if it has one.
    pub cgroup: Option<Cgroup>,
    /// The OCI runtime, if it is not the usual one.
    pub program: Option<PathBuf>,
    /// Where that one keeps its state, if that is not the usual place.
    pub root: Option<PathBuf>,
}

impl Subject {
    /// Is it the same container, perhaps by another name?
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        let known = self.init.is_some() && self.init == other.init;
        known || (self.runtime == other.runtime && self.id == other.id)
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Dumped and stored.
    Checkpoint,
    /// Restored.
    Restore,
    /// Frozen, nothing else.
    Freeze,
    /// A pod that is to be restored is prepared: files and tickets.
    Prepare,
    /// A held pod is let go.
    ThawPod,
}

/// How far it is. Each is written before the act of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Nothing has happened to any container.
    Begun,
    /// It is being frozen.
    Freezing,
    /// CRIU works on it: dump or restore.
    Criu,
    /// The checkpoint is listed in its store.
    Stored,
    /// Frozen, and to stay so until somebody thaws it.
    Held,
    /// To run again; may still be frozen.
    Thawing,
}

/// What becomes of a container that was checkpointed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// It goes on.
    #[default]
    LeaveRunning,
    /// It stays frozen.
    KeepFrozen,
    /// It is killed once the checkpoint is stored.
    Stop,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checkpoint => "checkpoint",
            Self::Restore => "restore",
            Self::Freeze => "freeze",
            Self::Prepare => "prepare",
            Self::ThawPod => "thaw-pod",
        })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begun => "begun",
            Self::Freezing => "freezing",
            Self::Criu => "criu",
            Self::Stored => "stored",
            Self::Held => "held",
            Self::Thawing => "thawing",
        })
    }
}
