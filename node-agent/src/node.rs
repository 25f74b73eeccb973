//! What the verbs that touch containers share: where the agent keeps its state, and which runtime is meant.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::journal::{Journal, Subject};
use crate::runtime::{Bare, Criu, Podman, Runc, Runtime, RuntimeKind};

/// The agent's own files.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct StateArgs {
    /// Folder of the agent on this node: journal, and images on their way
    #[arg(
        long,
        env = "ROCFERRY_STATE",
        value_name = "DIR",
        default_value = "/var/lib/rocferry"
    )]
    state: PathBuf,
}

impl StateArgs {
    /// The folder itself.
    pub(crate) fn folder(&self) -> &Path {
        &self.state
    }

    pub(crate) fn journal(&self) -> Result<Journal, Error> {
        Ok(Journal::open(&self.state)?)
    }
}

/// CRIU.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Runtime")]
pub(crate) struct CriuArgs {
    /// CRIU
    #[arg(long, value_name = "PROGRAM", default_value = "criu")]
    criu: PathBuf,
    /// Folder with CRIU's plugins, if it is not CRIU's own
    #[arg(long, env = "ROCFERRY_PLUGINS", value_name = "DIR")]
    plugins: Option<PathBuf>,
}

impl CriuArgs {
    pub(crate) fn criu(&self) -> Criu {
        Criu {
            program: self.criu.clone(),
            plugins: self.plugins.clone(),
        }
    }
}

/// The driver of a container that the journal knows.
pub(crate) fn driver_of(subject: &Subject, criu: Criu) -> Box<dyn Runtime> {
    let (program, root) = (subject.program.clone(), subject.root.clone());
    driver(subject.runtime, criu, program, root)
}

fn driver(
    kind: RuntimeKind,
    criu: Criu,
    program: Option<PathBuf>,
    root: Option<PathBuf>,
) -> Box<dyn Runtime> {
    match kind {
        RuntimeKind::Bare => Box::new(Bare::new(criu)),
        RuntimeKind::Runc => Box::new(Runc::new(criu, program, root)),
        RuntimeKind::Podman => {
            let program = program.unwrap_or_else(|| "podman".into());
            Box::new(Podman::new(criu, program))
        }
    }
}

/// The runtime.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Runtime")]
pub(crate) struct RuntimeArgs {
    /// What runs the container
    #[arg(long, value_enum, default_value_t = RuntimeKind::Runc)]
    runtime: RuntimeKind,
    #[command(flatten)]
    criu: CriuArgs,
    /// The OCI runtime or Podman, if it is not the one in PATH
    #[arg(long, value_name = "PROGRAM")]
    runtime_program: Option<PathBuf>,
    /// Where the OCI runtime keeps its state (its --root); without it the usual places are searched
    #[arg(long, value_name = "DIR")]
    runtime_root: Option<PathBuf>,
}

impl RuntimeArgs {
    pub(crate) const fn kind(&self) -> RuntimeKind {
        self.runtime
    }

    pub(crate) fn program(&self) -> Option<PathBuf> {
        self.runtime_program.clone()
    }

    pub(crate) fn root(&self) -> Option<PathBuf> {
        self.runtime_root.clone()
    }

    pub(crate) fn criu(&self) -> Criu {
        self.criu.criu()
    }

    /// The driver of a pod's containers: only one knows pods.
    pub(crate) fn of_pods(&self) -> Result<Runc, Error> {
        match self.runtime {
            RuntimeKind::Runc => Ok(Runc::new(self.criu(), self.program(), self.root())),
            other => Err(Error::Argument {
                what: "runtime of pods",
                value: other.to_string(),
                wanted: "runc or crun (--runtime runc)",
            }),
        }
    }

    pub(crate) fn driver(&self) -> Box<dyn Runtime> {
        driver(self.runtime, self.criu(), self.program(), self.root())
    }
}
