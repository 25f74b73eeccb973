//! Podman: what it knows of a container leads to the OCI runtime that runs it; it restores from archives.

mod config;
mod inspect;
mod restore;

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

    fn restore(&self, options: &RestoreOptions) -> Result<Invocation, RuntimeError> {
        restore::command(self, options)
    }

    fn restored(&self, options: &RestoreOptions) -> Result<u32, RuntimeError> {
        restore::restored(self, &options.id)
    }

    fn workplace(&self, options: &RestoreOptions) -> Option<PathBuf> {
        restore::workplace(self, &options.id)
    }

    fn interrupt(&self, options: &RestoreOptions) -> bool {
        restore::interrupt(self, &options.id)
    }

    fn engine_config(
        &self,
        container: &Container,
    ) -> Result<Option<serde_json::Value>, RuntimeError> {
        config::of(&self.program, &container.id).map(Some)
    }

    fn has_image(&self, id: &str) -> Result<bool, RuntimeError> {
        restore::has_image(self, id)
    }

    fn knows(&self, id: &str) -> Result<bool, RuntimeError> {
        restore::knows(self, id)
    }

    fn discard(&self, id: &str) -> Result<(), RuntimeError> {
        restore::discard(self, id)
    }
}
