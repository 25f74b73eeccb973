//! What a kubelet gives to `RunPodSandbox` and `CreateContainer`, as crictl reads it.

use serde_json::{Value, json};

use super::super::pod::Contents;
use super::{Cri, CriPod};

/// Of the pod.
pub(super) fn pod(pod: &CriPod) -> Value {
    let options = &pod.options;
    let annotations: serde_json::Map<String, Value> = options
        .annotations
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    let network = if options.host_network { 2 } else { 0 };
    json!({
        "metadata": { "name": pod.name, "namespace": CriPod::NAMESPACE, "uid": pod.uid, "attempt": 0 },
        "hostname": pod.name,
        "log_directory": pod.logs(),
        "labels": labels(pod, None),
        "annotations": annotations,
        "linux": {
            "cgroup_parent": format!("/{}", pod.cgroup_path()),
            "security_context": { "namespace_options": { "network": network, "pid": 1 } },
        },
    })
}

/// Of a container; `attempt` counts those of that name.
pub(super) fn container(pod: &CriPod, contents: &Contents<'_>, attempt: usize) -> Value {
    let name = contents.name;
    let volumes = contents.volumes.iter().map(|volume| {
        let from = pod.volume(volume.name).join(volume.sub_path);
        json!({ "host_path": from, "container_path": volume.destination })
    });
    let host = contents
        .host_paths
        .iter()
        .map(|(from, to)| json!({ "host_path": from, "container_path": to }));
    let devices: Vec<Value> = contents
        .devices
        .iter()
        .map(|device| json!({ "host_path": device.path, "container_path": device.path, "permissions": "mrw" }))
        .collect();
    let mut resources = json!({});
    if let Some(memory) = contents.memory {
        resources["memory_limit_in_bytes"] = json!(memory);
    }
    json!({
        "metadata": { "name": name, "attempt": attempt },
        "image": { "image": Cri::IMAGE },
        "command": contents.command,
        "log_path": format!("{name}/{attempt}.log"),
        "labels": labels(pod, Some(name)),
        "annotations": { "io.kubernetes.container.restartCount": attempt.to_string() },
        "mounts": volumes.chain(host).collect::<Vec<_>>(),
        "devices": devices,
        "linux": {
            "resources": resources,
            "security_context": { "namespace_options": { "network": if pod.options.host_network { 2 } else { 0 }, "pid": 1 } },
        },
    })
}

fn labels(pod: &CriPod, container: Option<&str>) -> Value {
    let mut labels = json!({
        "io.kubernetes.pod.name": pod.name,
        "io.kubernetes.pod.namespace": CriPod::NAMESPACE,
        "io.kubernetes.pod.uid": pod.uid,
    });
    if let Some(name) = container {
        labels["io.kubernetes.container.name"] = json!(name);
    }
    labels
}
