//! `podman container restore --import`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::Podman;
use crate::process::users_of;
use crate::runtime::criu::first_line;
use crate::runtime::{Cancel, Invocation, RestoreOptions, RuntimeError, Tcp, kill};

pub(super) fn command(
    podman: &Podman,
    options: &RestoreOptions,
) -> Result<Invocation, RuntimeError> {
    let archive = options.archive.as_ref();
    let archive = archive.ok_or(RuntimeError::Needed { what: "an archive" })?;
    let mut command = Command::new(&podman.program);
    if let Some(plugins) = &podman.criu.plugins {
        command.env("CRIU_LIBS_DIR", plugins);
    }
    command
        .args(["container", "restore", "--keep", "--file-locks", "--import"])
        .arg(archive);
    if options.tcp == Tcp::Established {
        command.arg("--tcp-established");
    }
    command.arg("--name").arg(&options.id);
    Ok(Invocation {
        command,
        // Where it works is known once there is a container, see `workplace`.
        log: options.work.join("podman.log"),
        cancel: Cancel::Runtime,
    })
}

/// Its first process.
pub(super) fn restored(podman: &Podman, name: &str) -> Result<u32, RuntimeError> {
    let text = inspect(podman, name, "{{.State.Pid}}")?;
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err(RuntimeError::NotRunning {
            name: name.to_owned(),
            state: inspect(podman, name, "{{.State.Status}}")?,
        }),
    }
}

/// The folder in which the runtime has CRIU work.
pub(super) fn workplace(podman: &Podman, name: &str) -> Option<PathBuf> {
    let folder = inspect(podman, name, "{{.StaticDir}}").ok()?;
    let folder = PathBuf::from(folder);
    folder.is_absolute().then_some(folder)
}

/// Ends CRIU, which nobody outside knows yet; Podman and the runtime fail then, and end.
pub(super) fn interrupt(podman: &Podman, name: &str) -> bool {
    let Some(folder) = workplace(podman, name) else {
        return false;
    };
    let workers = users_of(&folder.join("checkpoint"));
    for pid in &workers {
        kill(*pid);
    }
    !workers.is_empty()
}

/// Is there a container of this name?
pub(super) fn knows(podman: &Podman, name: &str) -> Result<bool, RuntimeError> {
    exists(podman, "container", name)
}

/// Is there an image with this ID?
pub(super) fn has_image(podman: &Podman, id: &str) -> Result<bool, RuntimeError> {
    exists(podman, "image", id)
}

fn exists(podman: &Podman, kind: &str, name: &str) -> Result<bool, RuntimeError> {
    let output = run(podman, &[kind, "exists", "--", name])?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(says(podman, &format!("{kind} exists"), &output)),
    }
}

/// Removes what is there of it, in Podman and in the runtime.
pub(super) fn discard(podman: &Podman, name: &str) -> Result<(), RuntimeError> {
    if !knows(podman, name)? {
        return Ok(());
    }
    interrupt(podman, name);
    let runtime = inspect(podman, name, "{{.OCIRuntime}}")?;
    let id = inspect(podman, name, "{{.Id}}")?;
    let output = run(podman, &["rm", "--force", "--time", "0", name])?;
    // Podman may not know that the runtime has it already.
    let known = Command::new(&runtime)
        .args(["delete", "--force", &id])
        .stdin(Stdio::null())
        .output();
    if let Err(error) = known {
        tracing::debug!(%error, runtime, "The runtime cannot be asked");
    }
    match output.status.success() || !knows(podman, name)? {
        true => Ok(()),
        false => Err(says(podman, "rm --force", &output)),
    }
}

fn inspect(podman: &Podman, name: &str, format: &str) -> Result<String, RuntimeError> {
    let output = run(
        podman,
        &["container", "inspect", "--format", format, "--", name],
    )?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(says(podman, "container inspect", &output)),
    }
}

fn run(podman: &Podman, words: &[&str]) -> Result<Output, RuntimeError> {
    let output = Command::new(&podman.program)
        .args(words)
        .stdin(Stdio::null())
        .output();
    output.map_err(|source| RuntimeError::Program {
        program: podman.program.display().to_string(),
        source,
    })
}

fn says(podman: &Podman, verb: &str, output: &Output) -> RuntimeError {
    let program: &Path = &podman.program;
    RuntimeError::Says {
        program: format!("{} {verb}", program.display()),
        text: first_line("", &output.stderr),
    }
}
