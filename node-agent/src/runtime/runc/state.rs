//! What an OCI runtime says about a container: `state`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::freeze::Cgroup;
use crate::process::ProcessId;
use crate::runtime::criu::first_line;
use crate::runtime::{Container, Oci, RootFs, RuntimeError, RuntimeKind};
use crate::spec::Spec;

/// The answer, as the runtime specification has it.
#[derive(Debug, Deserialize)]
pub(in crate::runtime) struct State {
    id: String,
    #[serde(default)]
    pid: u32,
    status: String,
    bundle: PathBuf,
    /// Of runc and crun; not in the specification.
    #[serde(default)]
    rootfs: Option<PathBuf>,
    /// When it was created (RFC 3339, UTC). Of runc and crun, too.
    #[serde(default)]
    created: String,
}

/// Asks a runtime.
pub(in crate::runtime) fn of_program(
    program: &Path,
    root: Option<&Path>,
    id: &str,
) -> Result<State, RuntimeError> {
    let mut command = Command::new(program);
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    command.arg("state").arg(id).stdin(Stdio::null());
    let said = format!("{} state {id}", program.display());
    let output = command.output().map_err(|source| RuntimeError::Program {
        program: program.display().to_string(),
        source,
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let says = |text| RuntimeError::Says {
        program: said.clone(),
        text,
    };
    if !output.status.success() {
        return Err(says(first_line(&text, &output.stderr)));
    }
    serde_json::from_str(&text).map_err(|error| says(error.to_string()))
}

impl State {
    /// `created`, `running`, `paused`, `stopped`.
    pub(in crate::runtime) fn status(&self) -> &str {
        &self.status
    }

    /// When it was created, so that texts are ordered as times are: fractions of seconds end without zeros.
    pub(in crate::runtime) fn created(&self) -> String {
        let text = self.created.trim_end_matches('Z');
        match text.split_once('.') {
            Some((seconds, fraction)) => format!("{seconds}.{fraction:0<9}"),
            None => format!("{text}.000000000"),
        }
    }

    /// The container, if it runs.
    pub(in crate::runtime) fn container(
        self,
        kind: RuntimeKind,
        name: &str,
        program: PathBuf,
        root: Option<PathBuf>,
    ) -> Result<Container, RuntimeError> {
        if !matches!(self.status.as_str(), "running" | "paused") {
            return Err(RuntimeError::NotRunning {
                name: name.to_owned(),
                state: self.status,
            });
        }
        let proc = crate::process::proc(self.pid);
        let init = ProcessId::of(self.pid).map_err(RuntimeError::file("read", proc))?;
        let spec = Spec::read(&self.bundle)?;
        let rootfs = match self.rootfs {
            Some(rootfs) => rootfs,
            None => spec.root()?,
        };
        let rootfs = RootFs::at(&rootfs).map_err(RuntimeError::file(
            "read",
            Path::new("/proc/self/mountinfo"),
        ))?;
        Ok(Container {
            runtime: kind,
            name: name.to_owned(),
            id: self.id,
            init,
            cgroup: Some(cgroup(self.pid)?),
            image: None,
            image_digest: None,
            program: Some(program.clone()),
            oci: Some(Oci {
                program,
                root,
                bundle: self.bundle,
                spec: spec.into_value(),
                rootfs,
            }),
        })
    }
}

/// The container's own cgroup. crun puts its processes one level below it.
fn cgroup(pid: u32) -> Result<Cgroup, RuntimeError> {
    let cgroup = Cgroup::of_process(pid)?;
    Ok(match cgroup.parent_of("container") {
        Some(parent) => parent,
        None => cgroup,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_both_runtimes_are_understood() {
        let runc = r#"{"ociVersion":"1.2.1","id":"a","pid":17,"status":"running","bundle":"/b",
            "rootfs":"/b/rootfs","created":"2026-11-30T20:00:00Z","owner":""}"#;
        let crun = r#"{"ociVersion":"1.0.0","id":"a","pid":17,"status":"running","bundle":"/b",
            "rootfs":"/b/rootfs","created":"","systemd-scope":"","owner":"root"}"#;
        for text in [runc, crun] {
            let state: State = serde_json::from_str(text).expect("an answer");
            assert_eq!((state.id.as_str(), state.pid), ("a", 17));
            assert_eq!(state.rootfs, Some("/b/rootfs".into()));
        }
    }

    #[test]
    fn times_are_ordered_as_they_are() {
        let times = [
            "2026-11-30T20:00:00Z",
            "2026-11-30T20:00:00.12Z",
            "2026-11-30T20:00:00.123Z",
            "2026-11-30T20:00:00.2Z",
            "2026-11-30T20:00:01.000000001Z",
        ];
        let created = times.map(|created| {
            let text =
                format!(r#"{{"id":"a","status":"running","bundle":"/b","created":"{created}"}}"#);
            let state: State = serde_json::from_str(&text).expect("an answer");
            state.created()
        });
        assert!(created.is_sorted(), "{created:?}");
    }

    #[test]
    fn a_container_that_does_not_run_is_said_to_be_so() {
        let state = State {
            id: "a".to_owned(),
            pid: 0,
            status: "stopped".to_owned(),
            bundle: "/b".into(),
            rootfs: None,
            created: String::new(),
        };
        let found = state.container(RuntimeKind::Runc, "a", "runc".into(), None);
        let error = found.expect_err("it is stopped").to_string();
        assert_eq!(error, "Container a is stopped");
    }
}
