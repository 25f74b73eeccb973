//! The GPUs that a specification gives to a container: replaced by those of this node.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rocferry_topology::RenderMinor;
use rustix::fs::{major, minor};
use serde_json::{Value, json};

use crate::error::Error;

/// The driver's own device, for all GPUs.
const KFD: &str = "/dev/kfd";
/// Beginning of the paths of render nodes.
const RENDER: &str = "/dev/dri/renderD";
/// Major number of all DRM devices (`Documentation/admin-guide/devices.txt`).
const DRM: u64 = 226;
/// The first minor number of a render node.
const FIRST_RENDER: u64 = 128;

/// A device of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    path: String,
    major: u32,
    minor: u32,
}

/// `/dev/kfd`, whose number is another one on each machine and after each boot, and these render nodes.
pub(super) fn of_gpus(gpus: &[RenderMinor]) -> Result<Vec<Node>, Error> {
    let render = gpus.iter().map(|minor| format!("{RENDER}{}", minor.get()));
    std::iter::once(KFD.to_owned())
        .chain(render)
        .map(|path| {
            let meta = Path::new(&path).metadata().map_err(|source| Error::Read {
                path: path.clone().into(),
                source,
            })?;
            let device = meta.rdev();
            Ok(Node {
                path,
                major: major(device),
                minor: minor(device),
            })
        })
        .collect()
}

/// Replaces the GPUs of a specification: the nodes, and the rules of the device cgroup.
pub(super) fn replace(spec: &mut Value, nodes: &[Node]) {
    // /dev/kfd may have any number: what the specification says of it.
    let kfd = spec
        .pointer("/linux/devices")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|device| device.get("path").and_then(Value::as_str) == Some(KFD))
        .map(|device| (number(device, "major"), number(device, "minor")));
    if let Some(devices) = spec.pointer_mut("/linux/devices") {
        replace_nodes(devices, nodes);
    } else if let Some(linux) = spec.get_mut("linux").and_then(Value::as_object_mut) {
        let mut devices = json!([]);
        replace_nodes(&mut devices, nodes);
        linux.insert("devices".to_owned(), devices);
    }
    let Some(rules) = spec.pointer_mut("/linux/resources/devices") else {
        return;
    };
    let Some(rules) = rules.as_array_mut() else {
        return;
    };
    rules.retain(|rule| {
        let numbers = (number(rule, "major"), number(rule, "minor"));
        let render = numbers.0 == Some(DRM) && numbers.1.is_some_and(|minor| minor >= FIRST_RENDER);
        let allows = rule.get("allow").and_then(Value::as_bool) == Some(true);
        !(allows && (render || (numbers.1.is_some() && Some(numbers) == kfd)))
    });
    rules.extend(nodes.iter().map(|node| {
        json!({ "allow": true, "type": "c", "major": node.major, "minor": node.minor, "access": "rwm" })
    }));
}

/// Replaces the GPUs in a list of device nodes. They get the rights that the ones before them had.
pub(super) fn replace_nodes(list: &mut Value, nodes: &[Node]) {
    let Some(list) = list.as_array_mut() else {
        return;
    };
    let is_gpu = |device: &Value| {
        let path = device.get("path").and_then(Value::as_str);
        path.is_some_and(|path| path == KFD || path.starts_with(RENDER))
    };
    let old: Vec<Value> = list
        .iter()
        .filter(|device| is_gpu(device))
        .cloned()
        .collect();
    list.retain(|device| !is_gpu(device));
    for node in nodes {
        let kfd = node.path == KFD;
        let like = old.iter().find(|device| {
            let path = device.get("path").and_then(Value::as_str);
            (path == Some(KFD)) == kfd
        });
        let mut device = like.cloned().unwrap_or_else(|| json!({ "type": "c" }));
        device["path"] = json!(node.path);
        device["major"] = json!(node.major);
        device["minor"] = json!(node.minor);
        list.push(device);
    }
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, major: u32, minor: u32) -> Node {
        Node {
            path: path.to_owned(),
            major,
            minor,
        }
    }

    #[test]
    fn gpus_are_replaced_and_nothing_else_is() {
        let mut spec = json!({"linux": {
            "devices": [
                {"path": "/dev/kfd", "type": "c", "major": 240, "minor": 0, "fileMode": 438, "uid": 0, "gid": 44},
                {"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 128, "fileMode": 432, "gid": 105},
                {"path": "/dev/dri/card0", "type": "c", "major": 226, "minor": 0},
                {"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229},
            ],
            "resources": {"devices": [
                {"allow": false, "access": "rwm"},
                {"allow": true, "type": "c", "major": 240, "minor": 0, "access": "rwm"},
                {"allow": true, "type": "c", "major": 226, "minor": 128, "access": "rw"},
                {"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rwm"},
            ]},
        }});
        let nodes = [
            node("/dev/kfd", 511, 0),
            node("/dev/dri/renderD152", 226, 152),
        ];
        for _ in 0..2 {
            replace(&mut spec, &nodes);
            let paths: Vec<_> = spec["linux"]["devices"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|device| device["path"].as_str().expect("text"))
                .collect();
            let wanted = [
                "/dev/dri/card0",
                "/dev/fuse",
                "/dev/kfd",
                "/dev/dri/renderD152",
            ];
            assert_eq!(paths, wanted);
            assert_eq!(spec["linux"]["devices"][2]["gid"], 44);
            assert_eq!(spec["linux"]["devices"][2]["major"], 511);
            assert_eq!(spec["linux"]["devices"][3]["fileMode"], 432);
            let rules = spec["linux"]["resources"]["devices"]
                .as_array()
                .expect("a list");
            let numbers: Vec<_> = rules
                .iter()
                .map(|rule| (number(rule, "major"), number(rule, "minor")))
                .collect();
            let wanted = [
                (None, None),
                (Some(10), Some(229)),
                (Some(511), Some(0)),
                (Some(226), Some(152)),
            ];
            assert_eq!(numbers, wanted);
        }
    }

    #[test]
    fn a_specification_without_devices_gets_them() {
        let mut spec = json!({"linux": {"resources": {"devices": []}}});
        replace(&mut spec, &[node("/dev/kfd", 511, 0)]);
        assert_eq!(spec["linux"]["devices"][0]["type"], "c");
        assert_eq!(spec["linux"]["resources"]["devices"][0]["major"], 511);
        let mut nothing = json!({});
        replace(&mut nothing, &[node("/dev/kfd", 511, 0)]);
        assert_eq!(nothing, json!({}));
    }
}
