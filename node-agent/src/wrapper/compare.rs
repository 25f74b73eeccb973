//! What the checkpoint has and the new container lacks.

use serde_json::Value;

use super::bundle::Bundle;
use crate::spec::plain;
use crate::ticket::Ticket;

/// Each difference in words; none if the container will do.
pub(crate) fn differences(ticket: &Ticket, bundle: &Bundle) -> Vec<String> {
    let spec = bundle.spec();
    let mut found = Vec::new();
    for mount in &ticket.mounts {
        match spec.mount_at(&mount.destination) {
            None => found.push(format!("no mount at {}", mount.destination)),
            Some(other) if other.kind != mount.kind => found.push(format!(
                "the mount at {} is {}, not {}",
                mount.destination, other.kind, mount.kind
            )),
            Some(_) => {}
        }
    }
    let devices = spec.part("linux", "devices").and_then(Value::as_array);
    let devices: Vec<String> = devices
        .into_iter()
        .flatten()
        .filter_map(|device| device.get("path")?.as_str().map(plain))
        .collect();
    for device in &ticket.devices {
        // A device may also be bound from the host.
        let path = plain(&device.path);
        if !devices.contains(&path) && spec.mount_at(&path).is_none() {
            found.push(format!("no device {}", device.path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::{ExpectedDevice, ExpectedMount};

    const SPEC: &str = r#"{"mounts":[
        {"destination":"/proc","type":"proc","source":"proc"},
        {"destination":"/data/","type":"none","source":"/x","options":["rbind","ro"]},
        {"destination":"/dev/x","source":"/dev/x","options":["bind"]},
        {"destination":7}, "nonsense"],
        "linux":{"devices":[{"path":"/dev/kfd","type":"c","major":510,"minor":0}, 7]}}"#;

    fn found(mounts: &[(&str, &str)], devices: &[&str]) -> Vec<String> {
        let mut ticket = Ticket::new("c", "/i");
        ticket.mounts = mounts
            .iter()
            .map(|(destination, kind)| ExpectedMount {
                destination: (*destination).to_owned(),
                kind: (*kind).to_owned(),
            })
            .collect();
        ticket.devices = devices
            .iter()
            .map(|path| ExpectedDevice {
                path: (*path).to_owned(),
            })
            .collect();
        differences(&ticket, &Bundle::of(SPEC))
    }

    #[test]
    fn each_missing_thing_is_named() {
        assert!(
            found(
                &[("/proc", "proc"), ("/data", "bind")],
                &["/dev/kfd", "/dev/x"]
            )
            .is_empty()
        );
        assert_eq!(
            found(&[("/cache", "bind"), ("/data", "tmpfs")], &["/dev/fuse"]),
            [
                "no mount at /cache",
                "the mount at /data is bind, not tmpfs",
                "no device /dev/fuse"
            ]
        );
    }
}
