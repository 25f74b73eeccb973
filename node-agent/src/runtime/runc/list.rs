//! All containers that OCI runtimes know on this node, with their specifications.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::find::{program_of, roots};
use super::{Runc, of_program};
use crate::runtime::{Container, RuntimeError, RuntimeKind};
use crate::spec::Spec;

/// Largest state file of a runtime, in bytes.
const MAX_STATE: u64 = 16 << 20;

/// A container in a state folder of a runtime.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The state folder (`--root`).
    pub root: PathBuf,
    /// Its id.
    pub id: String,
    /// `config.json` of its bundle.
    pub spec: Value,
}

/// How a container is when it is looked at.
#[derive(Clone, Debug)]
pub enum Now {
    /// It runs, or is paused.
    Runs {
        /// The container.
        container: Box<Container>,
        /// When it was created; such texts are ordered as the times are.
        created: String,
    },
    /// It has been created and not started, or is being created: the runtime's word for that.
    Starts(String),
    /// It has ended or is gone.
    Ended,
}

impl Listed {
    /// An annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.spec.get("annotations")?.get(name)?.as_str()
    }
}

impl Runc {
    /// Everything in the state folders that can be read. What is made or removed at the same time may be missing.
    #[must_use]
    pub fn list(&self) -> Vec<Listed> {
        let mut found = Vec::new();
        for root in roots(self) {
            let Ok(entries) = fs::read_dir(&root) else {
                continue;
            };
            for entry in entries.filter_map(Result::ok) {
                let Ok(id) = entry.file_name().into_string() else {
                    continue;
                };
                let spec = bundle(&entry.path()).and_then(|bundle| Spec::read(&bundle).ok());
                let spec = spec.map(Spec::into_value);
                if let Some(spec) = spec {
                    let root = root.clone();
                    found.push(Listed { root, id, spec });
                }
            }
        }
        found
    }

    /// Asks the runtime about one.
    ///
    /// # Errors
    /// The runtime cannot be asked.
    pub fn look(&self, listed: &Listed) -> Result<Now, RuntimeError> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => program_of(&listed.root),
        };
        let state = match of_program(&program, Some(&listed.root), &listed.id) {
            Err(RuntimeError::Says { .. }) if !listed.root.join(&listed.id).exists() => {
                return Ok(Now::Ended);
            }
            state => state?,
        };
        match state.status() {
            "running" | "paused" => {
                let created = state.created();
                let root = Some(listed.root.clone());
                let container = state.container(RuntimeKind::Runc, &listed.id, program, root)?;
                let container = Box::new(container);
                Ok(Now::Runs { container, created })
            }
            "stopped" => Ok(Now::Ended),
            other => Ok(Now::Starts(other.to_owned())),
        }
    }
}

/// Where the bundle is: runc keeps it among the labels of `state.json`, crun in `status`.
fn bundle(folder: &Path) -> Option<PathBuf> {
    if let Some(state) = json(&folder.join("state.json")) {
        let labels = state.pointer("/config/labels")?.as_array()?;
        let mut labels = labels.iter().filter_map(Value::as_str);
        return labels.find_map(|label| Some(label.strip_prefix("bundle=")?.into()));
    }
    let status = json(&folder.join("status"))?;
    Some(status.get("bundle")?.as_str()?.into())
}

fn json(path: &Path) -> Option<Value> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_STATE).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Criu;

    #[test]
    fn both_runtimes_are_listed() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("state");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        let bundle = |name: &str| dir.path().join(name).display().to_string();
        put("a/config.json", r#"{"annotations":{"who":"runc"}}"#);
        put("b/config.json", r#"{"annotations":{"who":"crun"}}"#);
        let labels = format!(
            r#"{{"config":{{"labels":["x=y","bundle={}"]}}}}"#,
            bundle("a")
        );
        put("state/one/state.json", &labels);
        put(
            "state/two/status",
            &format!(r#"{{"pid":1,"bundle":"{}"}}"#, bundle("b")),
        );
        // Being made, damaged, of a bundle that is gone.
        fs::create_dir(root.join("three")).expect("made");
        put("state/four/state.json", "{");
        put("state/five/status", r#"{"bundle":"/nowhere"}"#);
        let criu = Criu {
            program: "criu".into(),
            plugins: None,
        };
        let runc = Runc::new(criu, None, Some(root));
        let mut list: Vec<_> = runc
            .list()
            .iter()
            .map(|one| format!("{} {}", one.id, one.annotation("who").unwrap_or_default()))
            .collect();
        list.sort();
        assert_eq!(list, ["one runc", "two crun"]);
    }
}
