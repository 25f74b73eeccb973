//! A machine with systemd as process 1, which makes the cgroups of containers: the driver `systemd` of engines and of the
//! kubelet. Pods are slices there and containers scopes, and nothing that systemd does may let go what is frozen.

use anyhow::Result;

use crate::case::Case;
use crate::containers::{has_systemd, run};

/// Beginning of the names of these cases: they run in such a machine, and no others do.
pub(crate) const PREFIX: &str = "systemd/";

/// Those that run in the other machines as well: the same function, the other driver.
const AGAIN: &[&str] = &[
    "systemd/pod/as_a_kubelet_has_it_made",
    "systemd/pod/kept_frozen_thawed_and_stopped",
    "systemd/wrapper/pod_goes_on_at_one_instant",
];

/// All of them, given those of the other machines.
pub(crate) fn cases(others: &[Case]) -> Vec<Case> {
    let again = AGAIN.iter().filter_map(|name| {
        let other = others
            .iter()
            .find(|other| name.strip_prefix(PREFIX) == Some(other.name))?;
        Some(Case { name, ..*other })
    });
    again.collect()
}

/// What an administrator or a package does at any time: systemd reads all units again, and starts itself anew. Neither knows
/// of what was frozen by the cgroup's file. Nothing where it is not process 1.
pub(crate) fn reload() -> Result<()> {
    if has_systemd() {
        for verb in ["daemon-reload", "daemon-reexec", "daemon-reload"] {
            run(&["systemctl", verb])?.ok()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_are_there() {
        let names: Vec<&str> = super::super::all().iter().map(|case| case.name).collect();
        for name in AGAIN {
            assert!(names.contains(name), "{name}");
        }
    }
}
