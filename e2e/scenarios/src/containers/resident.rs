//! The first process of a container, seen from outside.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::root::{DELETED, below};
use crate::proc;
use crate::view::View;
use crate::workload::Workload;

/// State file of the workload, inside.
pub(crate) const STATE: &str = "/work/state";

/// The workload as process 1 of a container.
pub(crate) struct Resident {
    /// The process; its state file is read through its own root.
    pub(crate) workload: Workload,
}

/// How it was before a dump.
pub(crate) struct Traces {
    view: View,
    /// GPU processes in the container.
    pub(crate) gpu_processes: u64,
}

impl Traces {
    /// For another machine.
    pub(crate) fn to_json(&self) -> Value {
        self.view.to_json()
    }

    /// What [`Self::to_json`] has made.
    pub(crate) fn from_json(value: &Value) -> Result<Self> {
        let view = View::from_json(value)?;
        Ok(Self {
            gpu_processes: view.gpu_processes(),
            view,
        })
    }
}

impl Resident {
    /// The process with this pid, when it is ready.
    pub(crate) fn new(pid: i32) -> Result<Self> {
        Self::in_root(pid, &root_of(pid))
    }

    /// The same, where its root file system can be seen at a path that outlives it.
    pub(crate) fn in_root(pid: i32, root: &Path) -> Result<Self> {
        let workload = Workload::running(pid, &below(root, STATE))?;
        let inner = proc::innermost(&format!("/proc/{pid}/status"));
        ensure!(
            inner == Some(1),
            "process {pid} is {inner:?} in its container, not process 1"
        );
        Ok(Self { workload })
    }

    /// Changes files in the root file system and in /dev/shm, and remembers how all looks.
    pub(crate) fn leave_traces(&self) -> Result<Traces> {
        let root = root_of(self.workload.pid);
        for path in KEPT {
            fs::write(below(&root, path), contents(path))?;
        }
        let deleted = below(&root, DELETED);
        if deleted.exists() {
            fs::remove_file(deleted)?;
        }
        let view = View::of(self.workload.pid)?;
        Ok(Traces {
            gpu_processes: view.gpu_processes(),
            view,
        })
    }

    /// Everything is as it was: files, pids, descriptors, threads; and the workload proves all it holds.
    pub(crate) fn is_as(&self, traces: &Traces) -> Result<()> {
        let root = root_of(self.workload.pid);
        for path in KEPT {
            let text = fs::read_to_string(below(&root, path)).unwrap_or_default();
            ensure!(text == contents(path), "{path} holds {text:?}");
        }
        ensure!(
            !below(&root, DELETED).exists(),
            "{DELETED} of the image is back"
        );
        View::of(self.workload.pid)?.is_same_as(&traces.view)?;
        self.workload.prove()?;
        self.workload.advances()
    }
}

/// Files that a checkpoint has to keep.
const KEPT: [&str; 3] = ["/work/kept", "/etc/kept", "/dev/shm/kept"];

fn contents(path: &str) -> String {
    format!("written to {path}\n")
}

fn root_of(pid: i32) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("root")
}
