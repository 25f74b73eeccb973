//! What can go wrong with a runtime.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::freeze::FreezeError;
use crate::spec::SpecError;

/// A runtime or CRIU does not do what it should.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// A program cannot be started.
    #[error("Cannot run {program}")]
    Program {
        /// Its name.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A program says something that cannot be understood, or fails.
    #[error("{program} says: {text}")]
    Says {
        /// Program and arguments.
        program: String,
        /// What it says, a line.
        text: String,
    },
    /// There is no such container.
    #[error("No container {name} of {runtime}{places}")]
    NotFound {
        /// As the user named it.
        name: String,
        /// Where it was looked for.
        runtime: &'static str,
        /// The same in detail, with a word before it; or empty.
        places: String,
    },
    /// The name fits several.
    #[error("{name} may be {first} or {second}")]
    Ambiguous {
        /// As the user named it.
        name: String,
        /// One.
        first: String,
        /// Another.
        second: String,
    },
    /// It is there, and does not run.
    #[error("Container {name} is {state}")]
    NotRunning {
        /// Its name.
        name: String,
        /// `stopped`, `created`, …
        state: String,
    },
    /// A file or folder.
    #[error("Cannot {what} {}", .path.display())]
    File {
        /// `read`, `write`, `make`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What the verb needs was not given.
    #[error("{what} is needed")]
    Needed {
        /// What.
        what: &'static str,
    },
    /// CRIU, or the runtime that ran it, failed.
    #[error("{what} failed ({how}): {tail}")]
    Failed {
        /// `Dump`, `Restore`.
        what: &'static str,
        /// Exit status.
        how: String,
        /// The end of CRIU's log, or of what the program said.
        tail: String,
    },
    /// It was stopped because it took too long or somebody wanted it.
    #[error("{what} was stopped: {why}")]
    Stopped {
        /// `Dump`, `Restore`.
        what: &'static str,
        /// `interrupted`, `not done after 30 s`.
        why: String,
    },
    /// The container's specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The cgroup.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
}

impl RuntimeError {
    /// Trying again makes no sense.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Stopped { .. })
    }

    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
