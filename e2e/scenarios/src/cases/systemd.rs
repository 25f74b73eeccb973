//! A machine with systemd as process 1, which makes the cgroups of containers: the driver `systemd` of engines and of the
//! kubelet. Pods are slices there and containers scopes, and nothing that systemd does may let go what is frozen.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::agent::tool::{Agent, case};
use super::containers::COMMAND;
use crate::case::{Case, Lab};
use crate::containers::{Device, PluginForAll, Podman, Resident, Runtime, has_systemd, run};
use crate::proc;

/// Beginning of the names of these cases: they run in such a machine, and no others do.
pub(crate) const PREFIX: &str = "systemd/";

/// Those that run in the other machines as well: the same function, the other driver.
const AGAIN: &[&str] = &[
    "systemd/pod/as_a_kubelet_has_it_made",
    "systemd/pod/frozen_at_one_instant",
    "systemd/pod/kept_frozen_thawed_and_stopped",
    "systemd/pod/deleted_while_it_is_kept_frozen",
    "systemd/pod/frozen_without_a_checkpoint",
    "systemd/wrapper/pod_goes_on_at_one_instant",
    "systemd/wrapper/pod_killed_midway",
    "systemd/containers/podman_through_rocferry_runc",
    "systemd/containers/podman_through_rocferry_crun",
];

/// Those of this kind of machine alone.
const OWN: &[Case] = &[
    case("systemd/podman_with_crun", 900, |lab| {
        podman(lab, Runtime::Crun)
    }),
    case("systemd/podman_with_runc", 900, |lab| {
        podman(lab, Runtime::Runc)
    }),
];

/// All of them, given those of the other machines.
pub(crate) fn cases(others: &[Case]) -> Vec<Case> {
    let again = AGAIN.iter().filter_map(|name| {
        let other = others
            .iter()
            .find(|other| name.strip_prefix(PREFIX) == Some(other.name))?;
        Some(Case { name, ..*other })
    });
    again.chain(OWN.iter().copied()).collect()
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

/// A container of Podman: left running, kept frozen and thawed, stopped, restored.
fn podman(lab: &mut Lab, runtime: Runtime) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let _plugin = PluginForAll::install()?;
    let agent = Agent::new(lab)?;
    let podman = Podman::new(runtime, &lab.folder("podman")?)?;
    podman.start("gpu", &Device::of_gpus(&lab.sim, &[0])?, COMMAND)?;
    let resident = Resident::new(podman.pid("gpu")?)?;
    let traces = resident.leave_traces()?;
    let scope = proc::cgroup(resident.workload.pid)?;
    ensure!(
        scope.contains("machine.slice/libpod-") && scope.contains(".scope"),
        "it is in {scope}: no cgroup of systemd's"
    );
    let program = podman.wrapper()?;
    let own = ["--runtime", "podman", "--runtime-program", &program];
    let words = |verb, more: &[&'static str]| [&[verb], own.as_slice(), more].concat();
    let checkpoint = |after| agent.run(&words("checkpoint", &["--json", after, "gpu"]));
    checkpoint("--leave-running")?.is(0)?;
    resident.is_as(&traces)?;
    agent.is_idle()?;

    checkpoint("--keep-frozen")?.is(0)?;
    let known = resident.workload.number("iterations")?;
    reload()?;
    // The engine's own wish to know how it is changes nothing either.
    podman.inspect("gpu", "{{.State.Status}}")?;
    std::thread::sleep(std::time::Duration::from_secs(2));
    let now = resident.workload.number("iterations")?;
    ensure!(now == known, "it ran: {known} iterations, then {now}");
    ensure!(agent.recover()? == ["held"], "it was not held");
    let id = podman.inspect("gpu", "{{.Id}}")?;
    agent.run(&["thaw", "--override", &id])?.is(0)?;
    resident.is_as(&traces)?;
    agent.is_idle()?;

    let report: Value = checkpoint("--stop")?.is(0)?.json()?;
    let id = report["id"].as_str().context("no id")?.to_owned();
    drop(resident);
    let restore = [
        words("restore", &["--json", "--name", "again"]),
        vec![id.as_str()],
    ]
    .concat();
    agent.run(&restore)?.is(0)?;
    let resident = Resident::new(podman.pid("again")?)?;
    resident.is_as(&traces)?;
    let scope = proc::cgroup(resident.workload.pid)?;
    ensure!(
        scope.contains("machine.slice/libpod-"),
        "it is in {scope}: no cgroup of systemd's"
    );
    agent.is_idle()?;
    lab.no_stray_access()
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
        assert!(names.iter().any(|name| name.starts_with("systemd/podman")));
    }
}
