//! `runc checkpoint`, `crun checkpoint`.

use std::path::Path;
use std::process::Command;

use crate::runtime::{Cancel, Container, Criu, DumpOptions, Invocation, Oci, RuntimeError, Tcp};

/// Name that runtimes give to CRIU's log.
const LOG: &str = "dump.log";
/// Name of a configuration file of CRIU.
const CONFIGURATION: &str = "criu.conf";
/// Variable that names one; it is read besides `/etc/criu/default.conf` (`criu/config.c`).
const VARIABLE: &str = "CRIU_CONFIG_FILE";

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
    match options.tcp {
        Tcp::Established => {
            command.arg("--tcp-established");
        }
        Tcp::Close if options.has_tcp => close_connections(&mut command, &options.work)?,
        Tcp::Close => {}
    }
    command.arg(&container.id);
    Ok(Invocation {
        command,
        log: options.work.join(LOG),
        cancel: Cancel::Runtime,
    })
}

/// Has CRIU close connections, those too that nobody has accepted yet. Runtimes have no word for it; CRIU reads this file,
/// whoever starts it, and one that the runtime names besides.
pub(super) fn close_connections(command: &mut Command, work: &Path) -> Result<(), RuntimeError> {
    let mut text = match std::env::var_os(VARIABLE) {
        // What the site wants to be read.
        Some(file) => std::fs::read_to_string(&file).map_err(RuntimeError::file("read", file))?,
        None => String::new(),
    };
    text.push_str("\ntcp-close\nskip-in-flight\n");
    let file = work.join(CONFIGURATION);
    std::fs::write(&file, text).map_err(RuntimeError::file("write", &file))?;
    command.env(VARIABLE, file);
    Ok(())
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
