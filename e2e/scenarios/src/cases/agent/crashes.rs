//! The agent is killed at every point where that may matter; then it is started again.

use anyhow::{Context, Result, ensure};

use super::tool::{Agent, OwnCgroup, case, checkpoint, nobody_runs, restored_cgroups};
use crate::case::{Case, Lab};
use crate::cases::round_trip::SMALL;
use crate::proc;

pub(crate) const CASES: &[Case] = &[
    case("agent/killed_while_it_checkpoints", 900, checkpoints),
    case("agent/killed_while_it_restores", 420, restores),
];

/// Before any of these the checkpoint is not known to be stored: whatever was asked for, it runs again.
const BEFORE: [&str; 7] = [
    "checkpoint-begun",
    "checkpoint-frozen",
    "dump-started",
    "dump-done",
    "checkpoint-thawed",
    "before-commit",
    "committed",
];

/// Here it is known, and what was asked for is done.
const AFTER: [&str; 2] = ["checkpoint-stored", "checkpoint-settled"];

fn checkpoints(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let mut workload = cgroup.start(lab, SMALL)?;
    for after in ["--leave-running", "--keep-frozen", "--stop"] {
        for point in BEFORE.iter().chain(&AFTER) {
            let say = || format!("{after} at {point}");
            // Not frozen, so never there.
            if after == "--leave-running" && ["checkpoint-frozen"].contains(point) {
                continue;
            }
            let pid = workload.pid.to_string();
            let fault = format!("{point}=kill");
            let listed = agent.listed()?.len();
            agent
                .run_with(&fault, &checkpoint(&pid, after))?
                .is(-9)
                .with_context(say)?;
            let done = agent.recover().with_context(say)?;
            let stored = AFTER.contains(point) || *point == "committed";
            ensure!(
                agent.listed()?.len() == listed + usize::from(stored),
                "{}: {:?}",
                say(),
                agent.listed()?
            );
            let wanted = match (AFTER.contains(point), after) {
                (true, "--keep-frozen") => "held",
                (true, "--stop") => "stopped",
                _ => "resumed",
            };
            ensure!(done == [wanted], "{}: {done:?}", say());
            match wanted {
                "held" => {
                    ensure!(cgroup.is_frozen()?, "{}: it runs", say());
                    agent.run(&["thaw", "--override", &pid])?.is(0)?;
                    workload.advances().with_context(say)?;
                }
                "stopped" => {
                    ensure!(cgroup.is_empty()?, "{}: it is there", say());
                    drop(workload);
                    workload = cgroup.start(lab, SMALL)?;
                }
                _ => {
                    ensure!(!cgroup.is_frozen()?, "{}: it is frozen", say());
                    workload.advances().with_context(say)?;
                }
            }
            agent.is_idle().with_context(say)?;
        }
    }
    workload.prove()?;
    agent.checkpoint(&workload, "--leave-running")?.is(0)?;
    agent.run(&["image", "verify", "--deep"])?.is(0)?;
    workload.finish()
}

fn restores(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let known = restored_cgroups()?;
    let cgroup = OwnCgroup::new()?;
    let mut workload = cgroup.start(lab, SMALL)?;
    let report = agent.checkpoint(&workload, "--stop")?.is(0)?.json()?;
    let id = report["id"].as_str().context("no id")?.to_owned();
    proc::wait_reaped(workload.pid)?;
    for (point, wanted) in [
        ("restore-begun", "forgotten"),
        ("restore-pulled", "forgotten"),
        ("restore-started", "ended"),
        ("restore-done", "ended"),
    ] {
        agent
            .run_with(
                &format!("{point}=kill"),
                &["restore", "--runtime", "bare", &id],
            )?
            .is(-9)?;
        let done = agent.recover().context(point)?;
        ensure!(done == [wanted], "{point}: {done:?}");
        nobody_runs().context(point)?;
        agent.is_idle().context(point)?;
        let mut left = restored_cgroups()?;
        left.retain(|cgroup| !known.contains(cgroup));
        ensure!(left.is_empty(), "{point}: cgroups were left: {left:?}");
    }
    agent.restore(&id, &mut workload)?;
    workload.prove()?;
    workload.finish()
}
