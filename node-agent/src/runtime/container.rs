//! A running container.

use std::path::{Path, PathBuf};

use rocferry_image::manifest::Mount;
use serde_json::Value;

use super::{RootFs, RuntimeKind};
use crate::freeze::Cgroup;
use crate::journal::Subject;
use crate::process::{self, ProcessId};

/// What is known of a running container.
#[derive(Clone, Debug)]
pub struct Container {
    /// Its runtime.
    pub runtime: RuntimeKind,
    /// As the user named it.
    pub name: String,
    /// Its id in the runtime.
    pub id: String,
    /// Its first process.
    pub init: ProcessId,
    /// The cgroup that holds it and nothing else, if there is one.
    pub cgroup: Option<Cgroup>,
    /// The program that the driver was told to use, if it was.
    pub program: Option<PathBuf>,
    /// The OCI runtime that runs it.
    pub oci: Option<Oci>,
    /// Image, as it was asked for.
    pub image: Option<String>,
    /// Digest of the image.
    pub image_digest: Option<String>,
}

/// What an OCI runtime knows of a container.
#[derive(Clone, Debug)]
pub struct Oci {
    /// The program: `runc`, `crun`, or a path.
    pub program: PathBuf,
    /// Its `--root`; `None`: the default.
    pub root: Option<PathBuf>,
    /// The bundle.
    pub bundle: PathBuf,
    /// `config.json` of the bundle.
    pub spec: Value,
    /// The root file system.
    pub rootfs: RootFs,
}

impl Container {
    /// Its processes now.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        if let Some(cgroup) = &self.cgroup
            && let Ok(processes) = cgroup.processes()
        {
            return processes.into_iter().collect();
        }
        process::tree(self.init.pid)
    }

    /// What the journal keeps of it.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject {
            runtime: self.runtime,
            name: self.name.clone(),
            id: self.id.clone(),
            init: Some(self.init),
            cgroup: self.cgroup.clone(),
            program: self.program.clone(),
            root: self.oci.as_ref().and_then(|oci| oci.root.clone()),
        }
    }

    /// Name of the runtime that must restore it.
    #[must_use]
    pub fn runtime_name(&self) -> String {
        let program = self.oci.as_ref().map(|oci| &oci.program);
        let name = program.and_then(|program| program.file_name()?.to_str());
        name.map_or_else(|| self.runtime.to_string(), str::to_owned)
    }
}

impl Oci {
    /// The mounts of the container.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        let Some(mounts) = self.spec.get("mounts").and_then(Value::as_array) else {
            return Vec::new();
        };
        let text = |mount: &Value, name| {
            let text = mount.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        mounts
            .iter()
            .map(|mount| Mount {
                destination: text(mount, "destination"),
                source: text(mount, "source"),
                kind: text(mount, "type"),
            })
            .collect()
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.spec.get("annotations")?.get(name)?.as_str()
    }

    /// What lies under `/dev/shm` if that is mounted from outside: CRIU leaves it alone then.
    #[must_use]
    pub fn shared_memory(&self) -> Option<PathBuf> {
        let mount = self
            .mounts()
            .into_iter()
            .find(|mount| mount.destination == "/dev/shm")?;
        let outside = mount.kind == "bind" || Path::new(&mount.source).is_absolute();
        outside.then(|| mount.source.into())
    }
}
