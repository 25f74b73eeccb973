//! What a container had when it was dumped, against the bundle and the machine that it is to go on in.

use std::path::Path;

use serde_json::Value;

use crate::preflight::Finding;
use crate::process;

/// Profiles that the kernel has (`security/apparmor/apparmorfs.c`), a line each: name and mode.
const PROFILES: &str = "/sys/kernel/security/apparmor/profiles";
/// There if SELinux is on.
const SELINUX: &str = "/sys/fs/selinux/enforce";

/// What this machine's security modules know.
#[derive(Debug)]
pub(super) struct Machine {
    /// Names of AppArmor's profiles; `None`: it is off.
    profiles: Option<Vec<String>>,
    /// SELinux is on.
    selinux: bool,
}

impl Machine {
    /// This one.
    pub(super) fn here() -> Self {
        let profiles = process::read(Path::new(PROFILES)).ok();
        let name = |line: &str| {
            line.rsplit_once(" (")
                .map_or(line, |(name, _)| name)
                .to_owned()
        };
        Self {
            profiles: profiles.map(|text| text.lines().map(name).collect()),
            selinux: Path::new(SELINUX).exists(),
        }
    }
}

/// What the bundle lacks, or has otherwise. `dumped` and `bundle`: specifications.
pub(super) fn differences(dumped: &Value, bundle: &Value, machine: &Machine) -> Vec<Finding> {
    let mut found = mounts(dumped, bundle);
    found.extend(security(dumped, bundle, machine));
    found
}

/// CRIU leaves what is mounted from outside to the runtime, which takes it from the bundle.
fn mounts(dumped: &Value, bundle: &Value) -> Vec<Finding> {
    let there: Vec<&str> = list(bundle).filter_map(destination).collect();
    let missing = list(dumped)
        .filter(|mount| is_bind(mount))
        .filter_map(|mount| Some((destination(mount)?, mount)))
        .filter(|(at, _)| !there.contains(at));
    missing
        .map(|(at, mount)| {
            let source = mount.get("source").and_then(Value::as_str);
            let text = format!(
                "The container had {} mounted at {at}, and the bundle has nothing there",
                source.unwrap_or("something")
            );
            Finding::refusal("mounts", text)
        })
        .collect()
}

fn list(spec: &Value) -> impl Iterator<Item = &Value> {
    let mounts = spec.get("mounts").and_then(Value::as_array);
    mounts.into_iter().flatten()
}

fn destination(mount: &Value) -> Option<&str> {
    let at = mount.get("destination")?.as_str()?;
    Some(match at.trim_end_matches('/') {
        "" => "/",
        at => at,
    })
}

/// By its type, or by its options: runtimes take either.
fn is_bind(mount: &Value) -> bool {
    let kind = mount.get("type").and_then(Value::as_str);
    let options = mount.get("options").and_then(Value::as_array);
    let mut options = options.into_iter().flatten().filter_map(Value::as_str);
    kind == Some("bind") || options.any(|option| matches!(option, "bind" | "rbind"))
}

/// CRIU puts processes under the label that they had, which must be known here.
fn security(dumped: &Value, bundle: &Value, machine: &Machine) -> Vec<Finding> {
    let text = |spec: &Value, name: &str| {
        let text = spec.pointer(&format!("/process/{name}"));
        let text = text.and_then(Value::as_str).unwrap_or_default();
        text.to_owned()
    };
    let mut found = Vec::new();
    let had = text(dumped, "apparmorProfile");
    let confined = !matches!(had.as_str(), "" | "unconfined");
    match &machine.profiles {
        None if confined => found.push(Finding::refusal(
            "lsm",
            format!("The container ran under AppArmor's profile {had}, and AppArmor is off here"),
        )),
        Some(profiles) if confined && !profiles.contains(&had) => found.push(Finding::refusal(
            "lsm",
            format!("The container ran under AppArmor's profile {had}, which is not loaded here"),
        )),
        _ => {}
    }
    let label = text(dumped, "selinuxLabel");
    if !label.is_empty() && !machine.selinux {
        found.push(Finding::refusal(
            "lsm",
            format!("The container ran with the SELinux label {label}, and SELinux is off here"),
        ));
    }
    for (name, had) in [("apparmorProfile", had), ("selinuxLabel", label)] {
        let now = text(bundle, name);
        if !had.is_empty() && !now.is_empty() && now != had {
            found.push(Finding::note(
                "lsm",
                format!("It keeps {had}, not {now} of the bundle ({name})"),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OFF: Machine = Machine {
        profiles: None,
        selinux: false,
    };

    fn texts(found: &[Finding]) -> Vec<(&str, bool)> {
        let text = |finding: &'_ Finding| (finding.about, finding.refuses);
        found.iter().map(text).collect()
    }

    /// Field report 9: Docker binds three files of its own into each container.
    #[test]
    fn what_docker_had_mounted_is_named() {
        let bind = |at: &str| {
            json!({"destination": at, "type": "bind", "source": format!("/var/lib/docker/containers/f00{at}"),
                   "options": ["rbind", "rprivate"]})
        };
        let dumped = json!({"mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"},
            bind("/etc/resolv.conf"), bind("/etc/hostname"), bind("/etc/hosts/"),
        ]});
        let bundle =
            json!({"mounts": [{"destination": "/etc/hosts", "source": "/x", "options": ["bind"]}]});
        let found = differences(&dumped, &bundle, &OFF);
        assert_eq!(texts(&found), [("mounts", true); 2]);
        let text = &found[0].text;
        assert!(
            text.contains("/containers/f00/etc/resolv.conf mounted at /etc/resolv.conf"),
            "{text}"
        );
        assert_eq!(differences(&dumped, &dumped, &OFF), []);
    }

    /// Field report 37.
    #[test]
    fn a_profile_that_is_not_known_here_is_named() {
        let spec = |profile: &str, label: &str| json!({"process": {"apparmorProfile": profile, "selinuxLabel": label}});
        let on = Machine {
            profiles: Some(vec!["containers-default".to_owned()]),
            selinux: true,
        };
        let none = json!({});
        let default = spec("containers-default", "");
        for (dumped, bundle, machine, expected) in [
            (&none, &none, &OFF, vec![]),
            (&spec("", ""), &none, &OFF, vec![]),
            (&spec("unconfined", ""), &none, &OFF, vec![]),
            (&default, &none, &OFF, vec![("lsm", true)]),
            (&default, &default, &on, vec![]),
            (&spec("another", ""), &none, &on, vec![("lsm", true)]),
            (&spec("", "system_u:a"), &none, &OFF, vec![("lsm", true)]),
            (
                &spec("", "system_u:a"),
                &spec("", "system_u:b"),
                &on,
                vec![("lsm", false)],
            ),
            (&default, &spec("unconfined", ""), &on, vec![("lsm", false)]),
        ] {
            let found = differences(dumped, bundle, machine);
            assert_eq!(texts(&found), expected, "{dumped} {bundle}");
        }
    }
}
