//! `podman inspect`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::runtime::criu::first_line;
use crate::runtime::{Container, RuntimeError, RuntimeKind, runc};

/// What is needed of the answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    id: String,
    state: State,
    /// `crun`, `runc`, or a path.
    #[serde(rename = "OCIRuntime")]
    oci_runtime: PathBuf,
    #[serde(default)]
    image_name: Option<String>,
    #[serde(default)]
    image_digest: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    status: String,
}

pub(super) fn find(program: &Path, name: &str) -> Result<Container, RuntimeError> {
    let output = Command::new(program)
        .args(["container", "inspect", "--", name])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| RuntimeError::Program {
            program: program.display().to_string(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(RuntimeError::NotFound {
            name: name.to_owned(),
            runtime: "Podman",
            places: format!(": {}", first_line(&text, &output.stderr)),
        });
    }
    let inspected = parse(program, &text)?;
    if !matches!(inspected.state.status.as_str(), "running" | "paused") {
        return Err(RuntimeError::NotRunning {
            name: name.to_owned(),
            state: inspected.state.status,
        });
    }
    // Podman as root leaves the runtimes their own default for --root.
    let state = runc::of_program(&inspected.oci_runtime, None, &inspected.id)?;
    let container = state.container(RuntimeKind::Podman, name, inspected.oci_runtime, None)?;
    Ok(Container {
        image: inspected.image_name,
        image_digest: inspected.image_digest,
        program: Some(program.to_owned()),
        ..container
    })
}

fn parse(program: &Path, text: &str) -> Result<Inspected, RuntimeError> {
    let says = |text| RuntimeError::Says {
        program: format!("{} container inspect", program.display()),
        text,
    };
    let list: Vec<Inspected> =
        serde_json::from_str(text).map_err(|error| says(error.to_string()))?;
    let mut list = list.into_iter();
    match (list.next(), list.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(says("it does not name one container".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_podman_says_leads_to_the_runtime() {
        let text = r#"[{"Id":"f00","State":{"Status":"running","Pid":7,"CgroupPath":"/x"},
            "OCIRuntime":"crun","ImageName":"docker.io/library/debian:sid","ImageDigest":"sha256:1",
            "Name":"job"}]"#;
        let inspected = parse(Path::new("podman"), text).expect("understood");
        assert_eq!(inspected.id, "f00");
        assert_eq!(inspected.oci_runtime, Path::new("crun"));
        assert_eq!(inspected.image_digest.as_deref(), Some("sha256:1"));
        for wrong in ["", "[]", "{}", "[{\"Id\":\"a\"}]"] {
            let error = parse(Path::new("podman"), wrong).expect_err(wrong);
            assert!(
                error
                    .to_string()
                    .starts_with("podman container inspect says")
            );
        }
    }
}
