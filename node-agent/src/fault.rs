//! Named points at which a test kills or fails this process. Without `ROCFERRY_FAULT` in the environment they do
//! nothing.
//!
//! `ROCFERRY_FAULT=POINT=kill` ends the process there by SIGKILL, as a crash would; `POINT=fail` makes the step fail.

use rustix::process::{Signal, getpid, kill_process};

/// The variable.
pub(crate) const VARIABLE: &str = "ROCFERRY_FAULT";

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A checkpoint is in the journal, nothing else has happened.
    CheckpointBegun,
    /// Of a pod: connections are kept away, nothing is frozen.
    PodAnswering,
    /// Of a pod: its cgroup is frozen, its containers' are not.
    PodFrozen,
    /// The container is frozen; of a pod: all of them by themselves, and no longer by the pod.
    CheckpointFrozen,
    /// Of a pod: its first container is dumped.
    PodContainerDumped,
    /// Of a pod that is not to go on: its cgroup is frozen again.
    PodFrozenAgain,
    /// CRIU or the runtime has just been started.
    DumpStarted,
    /// The dump is complete.
    DumpDone,
    /// The container's files are saved, and it runs again if it is to.
    CheckpointThawed,
    /// All is sent, the checkpoint is not listed yet.
    BeforeCommit,
    /// The checkpoint is listed, the journal does not know.
    Committed,
    /// The journal knows that the checkpoint is stored; what is to become of the container has not been done.
    CheckpointStored,
    /// The container is killed or kept; the journal has not been closed.
    CheckpointSettled,
    /// A restore is in the journal.
    RestoreBegun,
    /// All files are there.
    RestorePulled,
    /// CRIU or the runtime has just been started.
    RestoreStarted,
    /// It is restored and runs; the journal does not know.
    RestoreDone,
    /// `freeze`: in the journal, not frozen.
    FreezeBegun,
    /// `freeze`: frozen, the journal does not know.
    FreezeDone,
    /// `thaw`: in the journal, still frozen.
    ThawBegun,
    /// `thaw --pod-uid`: all tickets are used up, nothing runs yet.
    ThawMarked,
    /// `prepare`: in the journal, nothing is there.
    PrepareBegun,
    /// `prepare`: all files are there.
    PreparePulled,
    /// `prepare`: a ticket is there.
    PrepareTicket,
    /// `stop`: in the journal, still there.
    StopBegun,
}

impl Point {
    const fn name(self) -> &'static str {
        match self {
            Self::CheckpointBegun => "checkpoint-begun",
            Self::PodAnswering => "pod-answering",
            Self::PodFrozen => "pod-frozen",
            Self::PodContainerDumped => "pod-container-dumped",
            Self::PodFrozenAgain => "pod-frozen-again",
            Self::CheckpointFrozen => "checkpoint-frozen",
            Self::DumpStarted => "dump-started",
            Self::DumpDone => "dump-done",
            Self::CheckpointThawed => "checkpoint-thawed",
            Self::BeforeCommit => "before-commit",
            Self::Committed => "committed",
            Self::CheckpointStored => "checkpoint-stored",
            Self::CheckpointSettled => "checkpoint-settled",
            Self::RestoreBegun => "restore-begun",
            Self::RestorePulled => "restore-pulled",
            Self::RestoreStarted => "restore-started",
            Self::RestoreDone => "restore-done",
            Self::FreezeBegun => "freeze-begun",
            Self::FreezeDone => "freeze-done",
            Self::ThawBegun => "thaw-begun",
            Self::ThawMarked => "thaw-marked",
            Self::PrepareBegun => "prepare-begun",
            Self::PreparePulled => "prepare-pulled",
            Self::PrepareTicket => "prepare-ticket",
            Self::StopBegun => "stop-begun",
        }
    }
}

/// A step was made to fail.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("Made to fail at {0}")]
pub struct Fault(&'static str);

/// Passes a point.
pub(crate) fn pass(point: Point) -> Result<(), Fault> {
    let Ok(wanted) = std::env::var(VARIABLE) else {
        return Ok(());
    };
    match wanted.split_once('=') {
        Some((name, "kill")) if name == point.name() => {
            let _ = kill_process(getpid(), Signal::KILL);
            // The signal may be delivered a moment later: nothing may happen in between.
            loop {
                std::thread::park();
            }
        }
        Some((name, "fail")) if name == point.name() => Err(Fault(point.name())),
        _ => Ok(()),
    }
}
