//! What the checkpoint has and the new container lacks.

use std::collections::HashMap;

use serde_json::Value;

use super::bundle::Bundle;
use crate::ticket::Ticket;

/// Each difference in words; none if the container will do.
pub(crate) fn differences(ticket: &Ticket, bundle: &Bundle) -> Vec<String> {
    let mounts: HashMap<String, &str> = list(bundle.spec().get("mounts"))
        .filter_map(|mount| {
            let destination = mount.get("destination")?.as_str()?;
            Some((plain(destination), kind(mount)))
        })
        .collect();
    let mut found = Vec::new();
    for mount in &ticket.mounts {
        match mounts.get(&plain(&mount.destination)) {
            None => found.push(format!("no mount at {}", mount.destination)),
            Some(kind) if *kind != mount.kind => found.push(format!(
                "the mount at {} is {kind}, not {}",
                mount.destination, mount.kind
            )),
            Some(_) => {}
        }
    }
    let devices = bundle
        .spec()
        .get("linux")
        .and_then(|linux| linux.get("devices"));
    let devices: Vec<String> = list(devices)
        .filter_map(|device| device.get("path")?.as_str().map(plain))
        .collect();
    for device in &ticket.devices {
        // A device may also be bound from the host.
        let path = plain(&device.path);
        if !devices.contains(&path) && !mounts.contains_key(&path) {
            found.push(format!("no device {}", device.path));
        }
    }
    found
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// `bind` for any bind mount: runtimes go by the options, whatever the type says.
pub(crate) fn kind(mount: &Value) -> &str {
    let options = list(mount.get("options")).filter_map(Value::as_str);
    if options
        .into_iter()
        .any(|option| matches!(option, "bind" | "rbind"))
    {
        return "bind";
    }
    mount.get("type").and_then(Value::as_str).unwrap_or("bind")
}

/// A path without what does not matter in it.
fn plain(path: &str) -> String {
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    parts.fold(String::new(), |path, part| path + "/" + part)
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
