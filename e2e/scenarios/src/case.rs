//! A case and what it is given.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::criu::{Criu, Version};
use crate::sim::Sim;
use crate::workload::Workload;

/// Where the host puts the programs, and where they are copied to (the share is no file system for
/// executables that CRIU has to find again).
pub(crate) const SHARED_BIN: &str = "/host/bin";
/// The copies.
pub(crate) const BIN: &str = "/run/rocferry/bin";

/// One named test.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `group/what_is_shown`.
    pub(crate) name: &'static str,
    /// Which CRIU versions it is for.
    pub(crate) on: On,
    /// Seconds after which it counts as hung.
    pub(crate) limit_s: u32,
    /// The test.
    pub(crate) run: fn(&mut Lab) -> Result<()>,
}

/// Which CRIU versions a case runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// All three.
    All,
    /// 4.2 and later.
    Newest,
}

impl On {
    pub(crate) fn includes(self, version: Version) -> bool {
        match self {
            Self::All => true,
            Self::Newest => version >= Version(4, 2),
        }
    }
}

/// Error of a case that cannot be run here: a program that it needs is not in this userland. Counts as neither
/// passed nor failed; the text says what is missing.
#[derive(Debug)]
pub(crate) struct Skip(pub(crate) &'static str);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Skip {}

/// What a case works with: an empty folder, the simulator, CRIU with the plugin.
pub(crate) struct Lab {
    /// Empty folder of the case, on tmpfs.
    pub(crate) dir: PathBuf,
    /// The simulated GPUs.
    pub(crate) sim: Sim,
    /// CRIU with the plugin installed.
    pub(crate) criu: Criu,
    next: u32,
}

impl Lab {
    /// An empty folder below `root`, simulator not loaded.
    pub(crate) fn new(root: &Path, criu: Criu) -> Result<Self> {
        let _ = fs::remove_dir_all(root);
        fs::create_dir_all(root).with_context(|| format!("cannot make {}", root.display()))?;
        Ok(Self {
            dir: root.to_owned(),
            sim: Sim::default(),
            criu,
            next: 0,
        })
    }

    /// A new sub-folder.
    pub(crate) fn folder(&mut self, name: &str) -> Result<PathBuf> {
        self.next += 1;
        let path = self.dir.join(format!("{name}-{}", self.next));
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Starts the workload with a state file in the case's folder and waits until it is ready.
    pub(crate) fn workload(&mut self, args: &[&str]) -> Result<Workload> {
        self.workload_under(&[], args)
    }

    /// As [`Self::workload`], run by another program (`unshare …`).
    pub(crate) fn workload_under(&mut self, wrapper: &[&str], args: &[&str]) -> Result<Workload> {
        self.next += 1;
        let state = self.dir.join(format!("workload-{}.state", self.next));
        Workload::start_under(&state, wrapper, args)
    }
}
