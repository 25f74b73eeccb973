//! `config.json` of a pod's containers, as containerd writes it.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::super::runc::config;
use super::{Contents, Pod, text};

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It holds the namespaces.
    Sandbox,
    /// One of the pod's specification.
    Container,
}

pub(super) fn spec(pod: &Pod, contents: &Contents<'_>, kind: Kind) -> Result<Value> {
    let mut spec = config(contents.command, contents.devices);
    let kind_name = match kind {
        Kind::Sandbox => "sandbox",
        Kind::Container => "container",
    };
    let mut annotations = json!({
        "io.kubernetes.cri.container-type": kind_name,
        "io.kubernetes.cri.sandbox-id": pod.id("sandbox"),
        "io.kubernetes.cri.sandbox-name": pod.name,
        "io.kubernetes.cri.sandbox-namespace": pod.namespace,
        "io.kubernetes.cri.sandbox-uid": pod.uid,
    });
    if kind == Kind::Container {
        annotations["io.kubernetes.cri.container-name"] = json!(contents.name);
        annotations["io.kubernetes.cri.image-name"] = json!("localhost/workload:1");
    }
    for (name, value) in &pod.options.annotations {
        annotations[name] = json!(value);
    }
    spec["annotations"] = annotations;
    spec["linux"]["cgroupsPath"] = json!(pod.cgroups_path(contents.name));
    if let Some(memory) = contents.memory {
        spec["linux"]["resources"]["memory"] = json!({ "limit": memory });
    }
    namespaces(pod, &mut spec, kind)?;
    mounts(pod, &mut spec, contents, kind)?;
    Ok(spec)
}

/// The sandbox makes its own but for the network's; containers join it and have pid, mount and cgroup for themselves.
fn namespaces(pod: &Pod, spec: &mut Value, kind: Kind) -> Result<()> {
    let list = spec["linux"]["namespaces"]
        .as_array_mut()
        .context("namespaces")?;
    list.retain(|namespace| pod.network.is_some() || namespace["type"] != "network");
    for namespace in list.iter_mut() {
        let name = namespace["type"].as_str().unwrap_or_default().to_owned();
        match (name.as_str(), kind, &pod.network) {
            ("network", _, Some(network)) => namespace["path"] = json!(network.path()),
            ("ipc" | "uts", Kind::Container, _) => {
                namespace["path"] = json!(format!("/proc/{}/ns/{name}", pod.sandbox));
            }
            _ => {}
        }
    }
    match kind {
        Kind::Sandbox => spec["hostname"] = json!(pod.name),
        Kind::Container => {
            spec.as_object_mut().context("object")?.remove("hostname");
        }
    }
    Ok(())
}

fn mounts(pod: &Pod, spec: &mut Value, contents: &Contents<'_>, kind: Kind) -> Result<()> {
    let list = spec["mounts"].as_array_mut().context("mounts")?;
    let mut bind = |source: &std::path::Path, to: &str, way: &str| -> Result<()> {
        list.retain(|mount| mount["destination"] != to);
        list.push(json!({ "destination": to, "type": "bind", "source": text(source)?, "options": ["rbind", "rprivate", way] }));
        Ok(())
    };
    bind(&pod.shared_memory(), "/dev/shm", "rw")?;
    if kind == Kind::Sandbox {
        return Ok(());
    }
    for file in ["hosts", "resolv.conf", "hostname"] {
        bind(&pod.scratch.join(file), &format!("/etc/{file}"), "rw")?;
    }
    for volume in contents.volumes {
        bind(
            &pod.volume(volume.name).join(volume.sub_path),
            volume.destination,
            "rw",
        )?;
    }
    for (from, to) in contents.host_paths {
        bind(from, to, "rw")?;
    }
    Ok(())
}
