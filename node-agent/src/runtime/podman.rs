//! Podman: what it knows of a container leads to the OCI runtime that runs it.

mod inspect;

use std::path::PathBuf;

use super::{
    Container, Criu, DumpOptions, Invocation, RestoreOptions, Runtime, RuntimeError, RuntimeKind,
    runc,
};

/// The driver.
#[derive(Clone, Debug)]
pub struct Podman {
    criu: Criu,
    program: PathBuf,
}

impl Podman {
    /// With this CRIU's folder of plugins.
    #[must_use]
    pub const fn new(criu: Criu, program: PathBuf) -> Self {
        Self { criu, program }
    }
}

impl Runtime for Podman {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Podman
    }

    fn find(&self, name: &str) -> Result<Container, RuntimeError> {
        inspect::find(&self.program, name)
    }

    fn dump(
        &self,
        container: &Container,
        options: &DumpOptions,
    ) -> Result<Invocation, RuntimeError> {
        runc::dump_command(&self.criu, container, options)
    }

    fn restore(&self, _options: &RestoreOptions) -> Result<Invocation, RuntimeError> {
        Err(RuntimeError::Needed {
            what: "the runtime wrapper under `podman --runtime`",
        })
    }
}
