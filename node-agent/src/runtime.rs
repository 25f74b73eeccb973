//! Runtimes of containers, behind one trait: how a container is found, dumped and restored.
//!
//! Freezing is not here: it is the same for all of them and needs nothing of theirs ([`crate::freeze`]).

mod bare;
mod container;
mod criu;
mod error;
mod job;
mod podman;
mod rootfs;
mod runc;

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use bare::Bare;
pub use container::{Container, Oci};
pub(crate) use criu::PLUGIN_FOLDERS;
pub use criu::{Criu, CriuVersion};
pub use error::RuntimeError;
pub use job::{Cancel, Job};
pub(crate) use job::{ENTERING, all_ended, end_of, give_up, kill, tail};
pub use podman::Podman;
pub use rootfs::RootFs;
pub(crate) use rootfs::unescape;
pub use runc::{Listed, Now, Runc};

/// Which runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeKind {
    /// No runtime: a process and all its descendants, by its pid
    Bare,
    /// runc or crun, also under containerd and CRI-O: a container by its id
    Runc,
    /// Podman: a container by its name or id
    Podman,
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bare => "bare",
            Self::Runc => "runc",
            Self::Podman => "podman",
        })
    }
}

/// What connections of the container become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tcp {
    /// Closed after the restore.
    #[default]
    Close,
    /// Kept: whoever restores must have the same address.
    Established,
}

/// How to dump.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// Empty folder for the images.
    pub images: PathBuf,
    /// Folder for logs.
    pub work: PathBuf,
    /// Connections.
    pub tcp: Tcp,
    /// It has TCP sockets. A dump that was told to close connections can be restored by those alone who say so too, and
    /// not every engine has a word for it.
    pub has_tcp: bool,
}

/// How to restore.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Folder with the images.
    pub images: PathBuf,
    /// Folder for logs and results.
    pub work: PathBuf,
    /// Gets the pid of the first process.
    pub pid_file: PathBuf,
    /// Connections.
    pub tcp: Tcp,
    /// Cgroup in which everything is restored (without a runtime).
    pub cgroup: Option<crate::freeze::Cgroup>,
    /// Bundle of the new container (with a runtime).
    pub bundle: Option<PathBuf>,
    /// The checkpoint as an archive, for engines that want one.
    pub archive: Option<PathBuf>,
    /// Id of the new container; with Podman, its name.
    pub id: String,
}

/// The verbs that differ between runtimes. The commands leave CRIU's log in the work folder, under the name that
/// [`Invocation::log`] has.
pub trait Runtime: fmt::Debug + Send + Sync {
    /// Which one it is.
    fn kind(&self) -> RuntimeKind;

    /// Looks a running container up.
    ///
    /// # Errors
    /// There is none of that name, or it does not run.
    fn find(&self, name: &str) -> Result<Container, RuntimeError>;

    /// The command that dumps a container and leaves it as it was, running or frozen.
    ///
    /// # Errors
    /// It cannot be told how.
    fn dump(
        &self,
        container: &Container,
        options: &DumpOptions,
    ) -> Result<Invocation, RuntimeError>;

    /// The command that puts a container right whose dump was killed: another dump, whose plugin begins by undoing what
    /// the first one has left. It may fail; what it writes is of no use.
    ///
    /// # Errors
    /// It cannot be told how.
    fn heal(
        &self,
        container: &Container,
        options: &DumpOptions,
    ) -> Result<Invocation, RuntimeError> {
        self.dump(container, options)
    }

    /// The command that restores a container, running.
    ///
    /// # Errors
    /// It cannot be told how.
    fn restore(&self, options: &RestoreOptions) -> Result<Invocation, RuntimeError>;

    /// The first process of a container that was just restored.
    ///
    /// # Errors
    /// It cannot be told.
    fn restored(&self, options: &RestoreOptions) -> Result<u32, RuntimeError> {
        let path = &options.pid_file;
        let text = crate::process::read(path).map_err(RuntimeError::file("read", path))?;
        text.trim().parse().map_err(|_| RuntimeError::Says {
            program: path.display().to_string(),
            text: "no pid".to_owned(),
        })
    }

    /// Where CRIU and the plugin have worked in a restore, if it is not the folder of [`RestoreOptions::work`]: their logs and
    /// results are there.
    fn workplace(&self, options: &RestoreOptions) -> Option<PathBuf> {
        let _ = options;
        None
    }

    /// Where the command of a restore writes what it has to say, if its output becomes the container's.
    fn words(&self, options: &RestoreOptions) -> Option<PathBuf> {
        let _ = options;
        None
    }

    /// Stops a restore that is under way; false: nothing was done, the command itself is to be stopped.
    fn interrupt(&self, options: &RestoreOptions) -> bool {
        let _ = options;
        false
    }

    /// What the engine above the OCI runtime keeps of a container, as it writes it into archives; `None`: there is none.
    ///
    /// # Errors
    /// It cannot be read.
    fn engine_config(
        &self,
        container: &Container,
    ) -> Result<Option<serde_json::Value>, RuntimeError> {
        let _ = container;
        Ok(None)
    }

    /// Is the image that a container is made from on this machine, by its ID?
    ///
    /// # Errors
    /// The engine cannot be asked.
    fn has_image(&self, id: &str) -> Result<bool, RuntimeError> {
        let _ = id;
        Ok(true)
    }

    /// Does the runtime know a container of exactly this id?
    ///
    /// # Errors
    /// The runtime cannot be asked.
    fn knows(&self, id: &str) -> Result<bool, RuntimeError> {
        let _ = id;
        Ok(false)
    }

    /// Removes what a failed restore has left of a container in the runtime.
    ///
    /// # Errors
    /// The runtime cannot.
    fn discard(&self, id: &str) -> Result<(), RuntimeError> {
        let _ = id;
        Ok(())
    }
}

/// A command that runs CRIU.
#[derive(Debug)]
pub struct Invocation {
    /// The command.
    pub command: Command,
    /// CRIU's log.
    pub log: PathBuf,
    /// How it can be stopped without harm.
    pub cancel: Cancel,
}
