//! No runtime: a process and all its descendants, with CRIU alone.

mod dump;
mod find;
mod restore;

use super::{
    Container, Criu, CriuVersion, DumpOptions, Invocation, RestoreOptions, Runtime, RuntimeError,
    RuntimeKind, Tcp,
};

/// The driver.
#[derive(Clone, Debug)]
pub struct Bare {
    criu: Criu,
}

impl Bare {
    /// With this CRIU.
    #[must_use]
    pub const fn new(criu: Criu) -> Self {
        Self { criu }
    }

    /// What a dump and a restore must have in common.
    fn common(&self, tcp: Tcp) -> Result<Vec<&'static str>, RuntimeError> {
        // The cgroup is of this machine, and chosen anew at the restore.
        let mut words = vec![
            "--shell-job",
            "--ext-unix-sk",
            "--file-locks",
            "--manage-cgroups=ignore",
        ];
        words.push(match tcp {
            Tcp::Close => "--tcp-close",
            Tcp::Established => "--tcp-established",
        });
        if self.criu.version()? < CriuVersion(4, 0, 0) {
            // Older ones look for a build id in files that are open, and move the position of ELF files by it.
            words.extend(["--file-validation", "filesize"]);
        }
        Ok(words)
    }
}

impl Runtime for Bare {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Bare
    }

    fn find(&self, name: &str) -> Result<Container, RuntimeError> {
        find::find(name)
    }

    fn dump(
        &self,
        container: &Container,
        options: &DumpOptions,
    ) -> Result<Invocation, RuntimeError> {
        dump::command(self, container, options, "")
    }

    fn heal(
        &self,
        container: &Container,
        options: &DumpOptions,
    ) -> Result<Invocation, RuntimeError> {
        dump::command(self, container, options, dump::LITTLE)
    }

    fn restore(&self, options: &RestoreOptions) -> Result<Invocation, RuntimeError> {
        restore::command(self, options)
    }
}
