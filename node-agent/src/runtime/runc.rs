//! runc and crun: containers that an OCI runtime knows, also those of containerd and CRI-O.

mod dump;
mod find;
mod list;
mod restore;
mod state;

use std::path::PathBuf;

use super::{
    Container, Criu, DumpOptions, Invocation, RestoreOptions, Runtime, RuntimeError, RuntimeKind,
};

pub(super) use dump::command as dump_command;
pub use list::{Listed, Now};
pub(super) use state::of_program;

/// The driver.
#[derive(Clone, Debug)]
pub struct Runc {
    criu: Criu,
    /// The program; `None`: told by where the container is.
    program: Option<PathBuf>,
    /// Its `--root`; `None`: the usual places are searched.
    root: Option<PathBuf>,
}

impl Runc {
    /// With this CRIU's folder of plugins. The runtime finds CRIU by itself.
    #[must_use]
    pub const fn new(criu: Criu, program: Option<PathBuf>, root: Option<PathBuf>) -> Self {
        Self {
            criu,
            program,
            root,
        }
    }
}

impl Runtime for Runc {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Runc
    }

    fn find(&self, name: &str) -> Result<Container, RuntimeError> {
        find::find(self, name)
    }

    fn dump(
        &self,
        container: &Container,
        options: &DumpOptions,
    ) -> Result<Invocation, RuntimeError> {
        dump::command(&self.criu, container, options)
    }

    fn restore(&self, options: &RestoreOptions) -> Result<Invocation, RuntimeError> {
        restore::command(self, options)
    }

    fn words(&self, options: &RestoreOptions) -> Option<PathBuf> {
        Some(restore::words(options))
    }

    fn knows(&self, id: &str) -> Result<bool, RuntimeError> {
        restore::knows(self, id)
    }

    fn discard(&self, id: &str) -> Result<(), RuntimeError> {
        restore::discard(self, id)
    }
}
