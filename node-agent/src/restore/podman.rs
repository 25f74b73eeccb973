//! The archive that `podman container restore --import` takes, with the devices of this node.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rocferry_store::archive::{self, BoxError, Engine, Entry, EntryKind, Facts};
use rocferry_store::interchange::InterchangeError;
use rocferry_topology::RenderMinor;
use serde_json::{Value, json};

use super::devices;
use crate::error::Error;

/// Largest file of JSON in it.
const MAX_JSON: u64 = 4 << 20;

/// Podman's own configuration of the container.
pub(super) const CONFIG: &str = "config.dump";
const SPEC: &str = "spec.dump";

/// Does the checkpoint have what Podman needs? Why not.
pub(super) fn unfit(tree: &Path) -> Result<Option<String>, Error> {
    let config = read(tree, CONFIG)?;
    let own = config.get("staticDir").is_some_and(Value::is_string);
    Ok((!own).then(|| {
        "Podman makes a container from its own configuration, and this checkpoint has none: it is of another engine, \
or Podman's database could not be read when it was made"
            .to_owned()
    }))
}

/// The image that the container is made from: its ID, and how it was called. `None`: from a folder.
pub(super) fn image(tree: &Path) -> Result<Option<(String, String)>, Error> {
    let config = read(tree, CONFIG)?;
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let id = text("rootfsImageID");
    Ok((!id.is_empty()).then(|| (id.to_owned(), text("rootfsImageName").to_owned())))
}

/// Will the container be kept to these GPUs, of all that the machine has, while it is restored? Why not.
///
/// Under crun (seen with 1.28) a process that is restored may open all of them, and KFD counts what a process may open.
pub(super) fn limit(tree: &Path, gpus: usize, of: usize) -> Result<Option<String>, Error> {
    let config = read(tree, CONFIG)?;
    let runtime = config.get("runtime").and_then(Value::as_str);
    let runtime = runtime.and_then(|runtime| Path::new(runtime).file_name()?.to_str());
    let crun = runtime.is_some_and(|runtime| runtime.ends_with("crun"));
    Ok((crun && gpus < of).then(|| {
        format!(
            "crun does not keep a container to its {gpus} GPUs while it restores it, and the kernel wants all {of} of this \
machine then: only a machine with {gpus} will do, or a container that was begun with runc"
        )
    }))
}

/// Makes the archive beside the files that it is made of. With GPUs, `gpus` are those that it is given.
pub(super) fn archive(
    tree: &Path,
    gpus: Option<&[RenderMinor]>,
    facts: &Facts,
) -> Result<PathBuf, Error> {
    let mut spec = read(tree, SPEC)?;
    let mut config = read(tree, CONFIG)?;
    if let Some(gpus) = gpus {
        let nodes = devices::of_gpus(gpus)?;
        devices::replace(&mut spec, &nodes);
        if let Some(given) = config.get_mut("device_host_src") {
            devices::replace_nodes(given, &nodes);
        }
    }
    once(&mut spec);
    // The specification that Podman makes others of, should the container be started anew.
    if let Some(own) = config.get_mut("spec") {
        if let Some(gpus) = gpus {
            devices::replace(own, &devices::of_gpus(gpus)?);
        }
        once(own);
    }
    write(tree, SPEC, &spec)?;
    write(tree, CONFIG, &config)?;
    let path = tree.with_extension("tar");
    let failed = |source| Error::WriteFile {
        path: path.clone(),
        source,
    };
    let file = File::create(&path).map_err(failed)?;
    let mut files = Files::of(tree)?;
    archive::write(
        &mut files,
        Engine::Podman,
        facts,
        BufWriter::with_capacity(1 << 20, file),
    )
    .map_err(InterchangeError::from)?;
    Ok(path)
}

/// An environment in which nothing is there twice; of two the later one counts, as for the program.
fn once(spec: &mut Value) {
    let Some(environment) = spec.pointer_mut("/process/env") else {
        return;
    };
    let Some(list) = environment.as_array() else {
        return;
    };
    let name = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        text.split('=').next().unwrap_or_default().to_owned()
    };
    let mut last = HashMap::new();
    for (index, value) in list.iter().enumerate() {
        last.insert(name(value), index);
    }
    let kept = list.iter().enumerate();
    let kept = kept.filter(|(index, value)| last.get(&name(value)) == Some(index));
    *environment = Value::Array(kept.map(|(_, value)| value.clone()).collect());
}

fn read(tree: &Path, name: &str) -> Result<Value, Error> {
    let path = tree.join(name);
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_JSON).read_to_end(&mut bytes));
    read.map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    serde_json::from_slice(&bytes).map_err(|error| Error::Json {
        path,
        reason: error.to_string(),
    })
}

fn write(tree: &Path, name: &str, value: &Value) -> Result<(), Error> {
    let path = tree.join(name);
    fs::write(&path, json!(value).to_string()).map_err(|source| Error::WriteFile { path, source })
}

/// A folder as what an archive is made of.
struct Files {
    tree: PathBuf,
    entries: Vec<Entry>,
}

impl Files {
    fn of(tree: &Path) -> Result<Self, Error> {
        let mut entries = Vec::new();
        let mut waiting = vec![PathBuf::new()];
        while let Some(below) = waiting.pop() {
            let folder = tree.join(&below);
            let failed = |source| Error::Read {
                path: folder.clone(),
                source,
            };
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = below.join(entry.file_name());
                let meta = entry.metadata().map_err(failed)?;
                let kind = if meta.is_dir() {
                    waiting.push(path.clone());
                    EntryKind::Directory
                } else if meta.is_file() {
                    EntryKind::File { size: meta.len() }
                } else {
                    // A checkpoint has none.
                    continue;
                };
                let Some(path) = path.to_str() else { continue };
                entries.push(Entry {
                    path: path.to_owned(),
                    mode: meta.mode() & 0o7777,
                    uid: meta.uid(),
                    gid: meta.gid(),
                    modified_ms: u64::try_from(meta.mtime())
                        .unwrap_or(0)
                        .saturating_mul(1000),
                    kind,
                });
            }
        }
        Ok(Self {
            tree: tree.to_owned(),
            entries,
        })
    }
}

impl archive::Source for Files {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn open(&mut self, index: usize) -> Result<Box<dyn Read + '_>, BoxError> {
        let entry = self.entries.get(index);
        let entry = entry.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Box::new(File::open(self.tree.join(&entry.path))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_variables_of_a_name_the_later_one_stays() {
        let mut spec =
            json!({"process": {"env": ["PATH=/bin", "A=1", "B=2", "A=3", "PATH=/bin", "A"]}});
        once(&mut spec);
        let wanted = json!(["B=2", "PATH=/bin", "A"]);
        assert_eq!(spec["process"]["env"], wanted);
        once(&mut spec);
        assert_eq!(spec["process"]["env"], wanted);
        let mut none = json!({"process": {}});
        once(&mut none);
        assert_eq!(none, json!({"process": {}}));
    }

    #[test]
    fn crun_is_not_asked_for_a_part_of_the_gpus() {
        let dir = tempfile::tempdir().expect("a folder");
        for (runtime, gpus, fits) in [
            ("crun", 1, false),
            ("/usr/bin/crun", 1, false),
            ("crun", 2, true),
            ("runc", 1, true),
        ] {
            let config = json!({"runtime": runtime}).to_string();
            fs::write(dir.path().join(CONFIG), config).expect("written");
            let reason = limit(dir.path(), gpus, 2).expect("JSON");
            assert_eq!(reason.is_none(), fits, "{runtime} {gpus}");
        }
    }

    #[test]
    fn an_archive_is_made_of_what_podman_keeps_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("checkpoint")).expect("made");
        fs::write(tree.join("checkpoint/inventory.img"), "i").expect("written");
        let spec = json!({"process": {"env": ["A=1", "A=1"]}, "linux": {}});
        fs::write(tree.join(SPEC), spec.to_string()).expect("written");
        let mut config =
            json!({"id": "f00", "name": "job", "rootfsImageName": "i", "rootfsImageID": "1"});
        fs::write(tree.join(CONFIG), config.to_string()).expect("written");
        assert!(unfit(&tree).expect("JSON").is_some());
        archive(&tree, None, &Facts::default()).expect_err("not Podman's");
        config["staticDir"] = json!("/s");
        fs::write(tree.join(CONFIG), config.to_string()).expect("written");
        assert_eq!(unfit(&tree).expect("JSON"), None);
        let path = archive(&tree, None, &Facts::default()).expect("made");
        let mut archive = tar::Archive::new(File::open(path).expect("there"));
        let mut found = HashMap::new();
        for entry in archive.entries().expect("a tar") {
            let mut entry = entry.expect("a member");
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            found.insert(entry.path().expect("a path").display().to_string(), text);
        }
        let spec: Value = serde_json::from_str(&found[SPEC]).expect("JSON");
        assert_eq!(spec["process"]["env"], json!(["A=1"]));
        assert!(found.contains_key("checkpoint/inventory.img"));
    }
}
