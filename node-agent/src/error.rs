//! What can go wrong in a command.

use std::io;
use std::path::PathBuf;

use rocferry_image::ImageError;
use rocferry_store::StoreError;
use rocferry_store::backend::BackendError;
use rocferry_store::diff::DiffError;
use rocferry_store::interchange::InterchangeError;
use rocferry_store::seal::SealError;
use rocferry_topology::{CompactError, ReadError, SourceError};
use thiserror::Error;

use crate::decision::DecisionError;
use crate::fault::Fault;
use crate::freeze::FreezeError;
use crate::install::InstallError;
use crate::journal::JournalError;
use crate::layer::LayerError;
use crate::pod::PodError;
use crate::probes::ProbeError;
use crate::runtime::RuntimeError;
use crate::spec::SpecError;
use crate::ticket::{InvalidName, TicketError};

/// A command that cannot give an answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("Cannot read {}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A pipe, a device or the like where a file must be.
    #[error("{} is neither a file nor a folder", .path.display())]
    NoFile {
        /// What was named.
        path: PathBuf,
    },
    /// A folder that holds nothing of what was asked for.
    #[error("{} holds {missing}", .path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        missing: &'static str,
        /// What to do.
        next_step: &'static str,
    },
    /// A published topology is larger than any.
    #[error("{} has more than {limit} bytes, which no published topology has", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        limit: u64,
    },
    /// Neither JSON nor YAML.
    #[error("{} is no published topology: {reason}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        reason: String,
    },
    /// A published topology that makes no sense.
    #[error("{} is damaged", .path.display())]
    Compact {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: CompactError,
    },
    /// A topology tree that cannot be read.
    #[error("Cannot read the topology of {place}")]
    Tree {
        /// The folder, or "this machine".
        place: String,
        /// Why not.
        source: ReadError,
    },
    /// An image that cannot be read.
    #[error("Cannot read the checkpoint in {}", .dir.display())]
    Image {
        /// The folder.
        dir: PathBuf,
        /// The file in it, and what is wrong.
        source: ImageError,
    },
    /// Files of several dumps in one folder.
    #[error("{} holds files of several dumps: {first} does not belong to {second}", .dir.display())]
    Mixture {
        /// The folder.
        dir: PathBuf,
        /// One file.
        first: String,
        /// The other.
        second: String,
    },
    /// A checkpoint that cannot be matched with anything.
    #[error("Cannot match the GPUs of {place}")]
    Source {
        /// File, or where the system comes from.
        place: String,
        /// What is wrong with them.
        source: SourceError,
    },
    /// A GPU given by the user is not there.
    #[error("No GPU {name} in {place}")]
    NoGpu {
        /// As given.
        name: String,
        /// Where it was looked for.
        place: String,
        /// The GPUs there.
        known: String,
    },
    /// A value on the command line that makes no sense.
    #[error("{value:?} is no {what}: {wanted} are expected")]
    Argument {
        /// What it should be.
        what: &'static str,
        /// As given.
        value: String,
        /// What would do.
        wanted: &'static str,
    },
    /// A file with keys that holds none.
    #[error("{} cannot be used", .path.display())]
    Key {
        /// The file, or the key itself if it is a public one.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file cannot be written.
    #[error("Cannot write {}", .path.display())]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An archive, or the store.
    #[error(transparent)]
    Interchange(#[from] InterchangeError),
    /// Checkpoints that cannot be compared.
    #[error("The checkpoints cannot be compared")]
    Diff(#[from] DiffError),
    /// No threads, or no memory for them.
    #[error("Cannot start")]
    Runtime {
        /// What the system says.
        source: io::Error,
    },
    /// CRIU, or a runtime.
    #[error(transparent)]
    Driver(#[from] RuntimeError),
    /// A cgroup.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Files that are put into a container's root file system, or one of its volumes.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The specification of a container.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The installation on this host.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// Probes of a frozen pod.
    #[error(transparent)]
    Probes(#[from] ProbeError),
    /// A ticket or fence.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// A decision about a migration.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A checkpoint that does not hold what it must.
    #[error("{} cannot be restored from: {reason}", .path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Nobody is known whose checkpoints are taken.
    #[error("No key is trusted that could have signed checkpoint {checkpoint}")]
    NoTrust {
        /// The checkpoint.
        checkpoint: String,
    },
    /// A pod.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// A test made it fail.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Somebody, or the time, stopped it.
    #[error("{what} was stopped: {why}")]
    Stopped {
        /// What was going on.
        what: &'static str,
        /// `interrupted`, `not done after 30 s`.
        why: String,
    },
    /// The checkpoint is stored; the container is not what it was to become.
    #[error("Checkpoint {checkpoint} is stored, but the container is not settled")]
    Unsettled {
        /// The checkpoint.
        checkpoint: String,
        /// Why not.
        source: Box<Error>,
    },
    /// What was restored is not whole.
    #[error("The restore is not complete: {reason}")]
    Incomplete {
        /// What is wrong.
        reason: String,
    },
    /// The answer cannot be written down.
    #[error("Cannot write the answer: {reason}")]
    Write {
        /// What the library says.
        reason: String,
    },
}

/// What the user can do about an error of the store.
fn store_step(error: &StoreError) -> Option<&'static str> {
    Some(match error {
        StoreError::Seal(SealError::NoKey { .. } | SealError::WrongKey { .. }) => {
            "Give the right key with --identity or --key-file"
        }
        StoreError::Seal(SealError::StoreNotSealed) => {
            "Leave out --identity, --recipients and --key-file, or name another store"
        }
        StoreError::Backend(BackendError::Unavailable { .. }) => {
            "Check that the store can be reached, and try again: what was sent is not sent again"
        }
        StoreError::NoCheckpoint { .. } => "`rocferry-agent image ls` shows what there is",
        StoreError::NoStore => {
            "Check --store and --tenant; `image push` and `image import` make a store"
        }
        StoreError::Busy { .. } => "Wait for it, or name another directory",
        StoreError::Changed { .. } => "Store it again when nobody writes there any more",
        StoreError::Occupied { .. } => "Name a directory that is empty or not there",
        StoreError::LeaseLost { .. } => "Run the same command again",
        StoreError::Collection { source } if source.is_permanent() => {
            "If it is damaged: `rocferry-agent image verify` finds what else is; delete a damaged lease once no upload \
or download runs, and a damaged checkpoint with `rocferry-agent image rm`"
        }
        _ => return None,
    })
}

/// An error and its causes, each once: some libraries repeat the cause in their own text.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

impl Error {
    pub(crate) fn key(
        path: impl Into<PathBuf>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Key {
            path: path.into(),
            source: source.into(),
        }
    }

    /// What the user can do about it, a line.
    #[must_use]
    pub fn next_step(&self) -> Option<String> {
        let text = match self {
            Self::Empty { next_step, .. } => next_step,
            Self::NoFile { .. } => "Write it to a file first, and name that",
            Self::TooLarge { .. } | Self::Syntax { .. } => {
                "Expected is what `rocferry-agent topology show -o json` prints; for a topology tree or a checkpoint, name its folder"
            }
            Self::Compact {
                source: CompactError::Version { .. },
                ..
            } => "Use the rocferry-agent of the version that wrote it",
            Self::Compact { .. } => {
                "Write it anew with `rocferry-agent topology show -o json` on its machine"
            }
            Self::Tree {
                source: ReadError::Io { source, .. },
                ..
            } if source.kind() == io::ErrorKind::NotFound => {
                "Is the amdgpu driver loaded? Topologies of other machines are named by their folder or file"
            }
            Self::Tree { .. } => {
                "Copy the tree again, or take what `rocferry-agent topology show -o json` prints on its machine"
            }
            Self::Image { .. } => "Check that the dump was complete, and copy the folder again",
            Self::Mixture { .. } => "Dump again, into an empty folder",
            Self::Store(error) | Self::Interchange(InterchangeError::Store(error)) => {
                return store_step(error).map(str::to_owned);
            }
            Self::WriteFile { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                "Name a file that is not there yet, or remove this one"
            }
            Self::NoTrust { .. } => {
                "Name the public key of those who sign with --trust; --unsigned takes what anybody has written"
            }
            Self::Ticket(TicketError::Busy { .. }) => "Try again when that has ended",
            Self::Unsettled { .. } => "`rocferry-agent recover` does the rest",
            Self::Journal(JournalError::Busy { .. }) => {
                "`rocferry-agent status` shows what is under way"
            }
            Self::Pod(PodError::NotFound { .. }) => {
                "Pods are named by their UID, as NAMESPACE/NAME, or by the id of a container; --runtime-root names a state folder in another place"
            }
            Self::Pod(PodError::Ambiguous { .. }) => "Name it by its UID",
            Self::Pod(PodError::Starting { .. } | PodError::Stranger { .. }) => {
                "Try again once all containers of the pod run"
            }
            Self::Driver(RuntimeError::Program { .. }) => {
                "Install it, or name it with --criu or --runtime-program"
            }
            Self::NoGpu { known, .. } => return Some(format!("GPUs there: {known}")),
            _ => return None,
        };
        Some(text.to_owned())
    }
}
