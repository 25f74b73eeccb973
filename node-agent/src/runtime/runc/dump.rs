//! `runc checkpoint`, `crun checkpoint`.

use std::process::Command;

use crate::runtime::{Cancel, Container, Criu, DumpOptions, Invocation, Oci, RuntimeError, Tcp};

/// Name that runtimes give to CRIU's log.
const LOG: &str = "dump.log";

pub(in crate::runtime) fn command(
    criu: &Criu,
    container: &Container,
    options: &DumpOptions,
) -> Result<Invocation, RuntimeError> {
    let oci = container.oci.as_ref().ok_or(RuntimeError::Needed {
        what: "a container of an OCI runtime",
    })?;
    let mut command = program(oci, criu);
    command
        .arg("checkpoint")
        .arg("--image-path")
        .arg(&options.images)
        .arg("--work-path")
        .arg(&options.work)
        .args(["--leave-running", "--file-locks", "--ext-unix-sk"]);
    // Without it, connections must not be there (see preflight): runtimes cannot be told to close them.
    if options.tcp == Tcp::Established {
        command.arg("--tcp-established");
    }
    command.arg(&container.id);
    Ok(Invocation {
        command,
        log: options.work.join(LOG),
        cancel: Cancel::Runtime,
    })
}

fn program(oci: &Oci, criu: &Criu) -> Command {
    let mut command = Command::new(&oci.program);
    if let Some(root) = &oci.root {
        command.arg("--root").arg(root);
    }
    if let Some(plugins) = &criu.plugins {
        command.env("CRIU_LIBS_DIR", plugins);
    }
    command
}
