//! Which render nodes a specification gives to its container.

use std::collections::BTreeSet;
use std::path::Path;

use rocferry_topology::RenderMinor;
use serde_json::Value;

use crate::wrapper::bundle::Bundle;
use crate::wrapper::gpus::sees;

/// Major number of render nodes, and their lowest minor number.
const DRM_MAJOR: i64 = 226;
const FIRST_RENDER_MINOR: u32 = 128;

/// One past the last: 64 nodes of the classic range, and more where the kernel gives them.
const LAST_RENDER_MINOR: u32 = 128 + 1024;

/// The render nodes that the container finds in its `/dev` and that its device cgroup lets it open.
pub(super) fn render_nodes(bundle: &Bundle) -> BTreeSet<RenderMinor> {
    let mut found = listed(bundle);
    if binds_all(bundle) {
        found.extend((FIRST_RENDER_MINOR..LAST_RENDER_MINOR).map(RenderMinor));
    }
    found.retain(|minor| sees(bundle.spec().content(), *minor));
    found
}

/// Those in the list of devices, and those that are bound one by one.
fn listed(bundle: &Bundle) -> BTreeSet<RenderMinor> {
    let devices = bundle.spec().part("linux", "devices");
    let number = |device: &Value, name| device.get(name).and_then(Value::as_i64);
    let of_device = |device: &Value| {
        let is_drm = number(device, "major") == Some(DRM_MAJOR);
        let minor = u32::try_from(number(device, "minor")?).ok()?;
        (is_drm && minor >= FIRST_RENDER_MINOR).then_some(RenderMinor(minor))
    };
    let of_mount = |source: &str| {
        let name = source.strip_prefix("/dev/dri/renderD")?;
        Some(RenderMinor(name.parse().ok()?))
    };
    let devices = devices.and_then(Value::as_array).into_iter().flatten();
    devices
        .filter_map(of_device)
        .chain(sources(bundle).filter_map(of_mount))
        .collect()
}

/// Is the host's whole `/dev`, or its `/dev/dri`, mounted inside?
fn binds_all(bundle: &Bundle) -> bool {
    sources(bundle).any(|source| {
        let source = Path::new(source);
        source == Path::new("/dev") || source == Path::new("/dev/dri")
    })
}

/// What is bound into the container.
fn sources(bundle: &Bundle) -> impl Iterator<Item = &str> {
    let mounts = bundle.spec().content().get("mounts");
    let mounts = mounts.and_then(Value::as_array);
    mounts
        .into_iter()
        .flatten()
        .filter_map(|mount| mount.get("source").and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minors(spec: &str) -> Vec<u32> {
        let nodes = render_nodes(&Bundle::of(spec));
        nodes.into_iter().map(|minor| minor.0).collect()
    }

    #[test]
    fn listed_nodes_count_where_the_rules_allow_them() {
        let spec = |rules: &str| {
            format!(
                r#"{{"linux":{{"devices":[{{"type":"c","path":"/dev/kfd","major":511,"minor":0}},
                {{"type":"c","path":"/dev/dri/card0","major":226,"minor":0}},
                {{"type":"c","path":"/dev/dri/renderD128","major":226,"minor":128}},
                {{"type":"c","path":"/dev/dri/renderD130","major":226,"minor":130}},
                {{"type":"c","path":"/dev/x","major":226,"minor":-1}}],"resources":{{"devices":{rules}}}}}}}"#
            )
        };
        assert_eq!(minors(&spec(r#"[{"allow":true}]"#)), [128, 130]);
        assert!(minors(&spec(r#"[{"allow":false}]"#)).is_empty());
        let one =
            r#"[{"allow":false},{"allow":true,"type":"c","major":226,"minor":130,"access":"rw"}]"#;
        assert_eq!(minors(&spec(one)), [130]);
    }

    #[test]
    fn bound_nodes_count_as_well() {
        let spec = |source: &str| {
            format!(
                r#"{{"mounts":[{{"destination":"/x","source":"{source}"}},{{"destination":"/proc"}}],
                "linux":{{"resources":{{"devices":[{{"allow":false}},{{"allow":true,"type":"c","major":226,"minor":129}}]}}}}}}"#
            )
        };
        for source in ["/dev", "/dev/", "/dev/dri", "/dev/dri/renderD129"] {
            assert_eq!(minors(&spec(source)), [129], "{source}");
        }
        for source in ["/dev/dri/renderD128", "/dev/kfd", "/devices", "tmpfs"] {
            assert!(minors(&spec(source)).is_empty(), "{source}");
        }
    }

    #[test]
    fn a_specification_without_devices_gives_none() {
        for spec in [
            "{}",
            r#"{"linux":null}"#,
            r#"{"linux":{"devices":7},"mounts":{}}"#,
        ] {
            assert!(minors(spec).is_empty(), "{spec}");
        }
    }
}
