//! `runc restore`, `crun restore`: of a container whose bundle is there.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Runc;
use super::dump::close_connections;
use crate::runtime::criu::first_line;
use crate::runtime::{Cancel, Invocation, RestoreOptions, RuntimeError, Tcp};
use crate::spec::{CgroupPlace, Spec};

/// Name that runtimes give to CRIU's log.
const LOG: &str = "restore.log";

/// What the runtime itself says: its output is the container's.
const OWN_LOG: &str = "runtime.log";

pub(super) fn command(runc: &Runc, options: &RestoreOptions) -> Result<Invocation, RuntimeError> {
    let bundle = options
        .bundle
        .as_ref()
        .ok_or(RuntimeError::Needed { what: "--bundle" })?;
    let mut command = program(runc);
    if let Some(plugins) = &runc.criu.plugins {
        command.env("CRIU_LIBS_DIR", plugins);
    }
    if let Some(CgroupPlace::Systemd { .. }) = Spec::read(bundle)?.cgroup() {
        command.arg("--systemd-cgroup");
    }
    command
        .arg("--log")
        .arg(options.work.join(OWN_LOG))
        .args(["restore", "--detach", "--file-locks", "--ext-unix-sk"])
        .arg("--image-path")
        .arg(&options.images)
        .arg("--work-path")
        .arg(&options.work)
        .arg("--bundle")
        .arg(bundle)
        .arg("--pid-file")
        .arg(&options.pid_file);
    match options.tcp {
        Tcp::Established => {
            command.arg("--tcp-established");
        }
        Tcp::Close => close_connections(&mut command, &options.work)?,
    }
    command.arg(&options.id);
    Ok(Invocation {
        command,
        log: options.work.join(LOG),
        cancel: Cancel::Runtime,
    })
}

/// Where the runtime's own words are.
pub(super) fn words(options: &RestoreOptions) -> PathBuf {
    options.work.join(OWN_LOG)
}

/// Is there one of this id? What else a runtime may have to say about it ends the restore soon enough.
pub(super) fn knows(runc: &Runc, id: &str) -> Result<bool, RuntimeError> {
    let mut command = program(runc);
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.arg("state").arg(id).stdin(Stdio::null()).output();
    match output {
        Ok(output) => Ok(output.status.success()),
        Err(source) => Err(RuntimeError::Program {
            program: name,
            source,
        }),
    }
}

/// Removes a container that is there in part. One that is not there is fine.
pub(super) fn discard(runc: &Runc, id: &str) -> Result<(), RuntimeError> {
    let mut command = program(runc);
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .args(["delete", "--force"])
        .arg(id)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|source| RuntimeError::Program {
        program: name.clone(),
        source,
    })?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || text.contains("does not exist") {
        return Ok(());
    }
    Err(RuntimeError::Says {
        program: format!("{name} delete --force {id}"),
        text: first_line("", &output.stderr),
    })
}

fn program(runc: &Runc) -> Command {
    let mut command = match &runc.program {
        Some(program) => Command::new(program),
        None => Command::new("runc"),
    };
    if let Some(root) = &runc.root {
        command.arg("--root").arg(root);
    }
    command
}
