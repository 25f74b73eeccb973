//! Why a container is not made.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::layer::LayerError;
use crate::spec::SpecError;
use crate::ticket::TicketError;

/// A container that cannot be restored, or must not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WrapperError {
    /// The real runtime cannot be found.
    #[error(
        "No runtime {name} in PATH other than this program: install it, or name it in {settings} or ROCFERRY_RUNTIME"
    )]
    NoRuntime {
        /// What was looked for.
        name: String,
        /// The file with the settings.
        settings: String,
    },
    /// A program cannot be started.
    #[error("Cannot start {}", .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A flag of `create` that a restore cannot keep.
    #[error("Cannot restore with {flag}: {why}")]
    Flag {
        /// The flag.
        flag: String,
        /// Why not.
        why: &'static str,
    },
    /// Not exactly one container id.
    #[error("Cannot restore: {count} words in the place of one container id")]
    Words {
        /// How many there are.
        count: usize,
    },
    /// A file cannot be worked with.
    #[error("Cannot {verb} {}", .path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of others that makes no sense.
    #[error("{} makes no sense: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The container's specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Files of the checkpoint cannot be put into the container.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The ticket, or its folder.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// The container is marked for a restore, and there is nothing to restore it from.
    #[error(
        "This container is marked for a restore, and has no ticket: {reason}. It is not started cold"
    )]
    NoTicket {
        /// Why there is none.
        reason: String,
    },
    /// The container is under migration.
    #[error("This container is under migration ({request}): it must not be started on this node")]
    Fenced {
        /// What it is fenced for.
        request: String,
    },
    /// Its ticket says so.
    #[error(
        "This container was restored from {checkpoint} and has ended; its restore request refuses to start it again"
    )]
    Spent {
        /// The checkpoint.
        checkpoint: String,
    },
    /// Another command than `create` would start it.
    #[error(
        "This container is to be restored from {checkpoint}, which `{command}` does not do: use `create` and `start`"
    )]
    NotByThis {
        /// The checkpoint.
        checkpoint: String,
        /// The command.
        command: String,
    },
    /// The new container lacks what the checkpoint has.
    #[error("The new container differs from the checkpoint {checkpoint}: {}", .differences.join("; "))]
    Differs {
        /// The checkpoint.
        checkpoint: String,
        /// What is missing, each by name.
        differences: Vec<String>,
    },
    /// The images would give it more than its specification grants.
    #[error(
        "The checkpoint {checkpoint} asks for more than this container is granted: {}", .excess.join("; ")
    )]
    Privileges {
        /// The checkpoint.
        checkpoint: String,
        /// What, each by name.
        excess: Vec<String>,
    },
    /// The images cannot be read.
    #[error("Cannot read the images in {}", .folder.display())]
    Images {
        /// The folder.
        folder: PathBuf,
        /// The file in it, and what is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The GPUs do not fit.
    #[error("The GPUs of the checkpoint {checkpoint} do not fit on those of this container: {}", .reasons.join("; "))]
    Gpus {
        /// The checkpoint.
        checkpoint: String,
        /// Why not.
        reasons: Vec<String>,
    },
    /// Whether they do cannot be told.
    #[error("Cannot tell whether the GPUs of the checkpoint fit")]
    Topology(#[source] Box<crate::error::Error>),
    /// The runtime, or CRIU under it.
    #[error("The restore from {checkpoint} failed: {reason}")]
    Restore {
        /// The checkpoint.
        checkpoint: String,
        /// CRIU's or the runtime's words.
        reason: String,
    },
    /// CRIU was done, but the GPU state is not whole.
    #[error("The GPU state was not restored: {reason}")]
    GpuState {
        /// What is missing.
        reason: String,
    },
    /// The container cannot be kept from running.
    #[error("The container cannot be held: {reason}")]
    Hold {
        /// Why not.
        reason: String,
    },
    /// The container before it has not ended.
    #[error(
        "This container is held already, as {container}: delete that one first, or two copies would wait for one thaw"
    )]
    AlreadyHeld {
        /// Id of the one that is held.
        container: String,
    },
    /// A held container is thawed by the agent alone.
    #[error(
        "This container is held until its migration is committed: it cannot be resumed by hand"
    )]
    Held,
}

impl WrapperError {
    pub(crate) fn file<E: Into<io::Error>>(
        verb: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |source| Self::File {
            verb,
            path,
            source: source.into(),
        }
    }
}
