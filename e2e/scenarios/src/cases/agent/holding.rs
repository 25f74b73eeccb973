//! Frozen, and kept so.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::tool::{Agent, OwnCgroup, case};
use crate::case::{Case, Lab};
use crate::cases::round_trip::SMALL;
use crate::workload::Workload;

pub(crate) const CASES: &[Case] = &[
    case("agent/kept_frozen_until_somebody_says_so", 120, kept_frozen),
    case("agent/freeze_and_thaw", 90, freeze_and_thaw),
];

/// It does nothing at all for a while.
fn stands_still(cgroup: &OwnCgroup, workload: &Workload) -> Result<()> {
    ensure!(cgroup.is_frozen()?, "it is not frozen");
    let before = workload.number("iterations")?;
    sleep(Duration::from_millis(300));
    let after = workload.number("iterations")?;
    ensure!(before == after, "it went from {before} to {after}");
    Ok(())
}

fn kept_frozen(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, SMALL)?;
    let pid = workload.pid.to_string();
    agent.checkpoint(&workload, "--keep-frozen")?.is(0)?;
    stands_still(&cgroup, &workload)?;
    let journal = agent.journal()?;
    ensure!(
        journal.len() == 1 && journal[0]["phase"] == "held" && journal[0]["frozen"] == true,
        "{journal:?}"
    );
    // A start of the agent changes nothing about it.
    ensure!(agent.recover()? == ["held"], "it was not held");
    stands_still(&cgroup, &workload)?;
    agent.run(&["thaw", &pid])?.is(1)?.says(&["--override"])?;
    stands_still(&cgroup, &workload)?;
    // A frozen one can be dumped, and is still frozen then: that is not ours to change.
    agent.checkpoint(&workload, "--leave-running")?.is(0)?;
    stands_still(&cgroup, &workload)?;
    lab.sim.fault("kfd.criu_op.checkpoint 1 ENOMEM")?;
    agent.checkpoint(&workload, "--leave-running")?.is(2)?;
    lab.sim.clear_faults()?;
    stands_still(&cgroup, &workload)?;
    // Held twice; one thaw ends both.
    agent.checkpoint(&workload, "--keep-frozen")?.is(0)?;
    ensure!(agent.journal()?.len() == 2, "{:?}", agent.journal()?);
    agent.run(&["thaw", "--override", &pid])?.is(0)?;
    workload.advances()?;
    workload.prove()?;
    agent.is_idle()?;
    workload.finish()
}

fn freeze_and_thaw(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, SMALL)?;
    let pid = workload.pid.to_string();
    let freeze = ["freeze", "--runtime", "bare", &pid];
    agent.run(&["thaw", &pid])?.is(1)?;
    agent.run(&freeze)?.is(0)?;
    stands_still(&cgroup, &workload)?;
    agent.run(&freeze)?.is(1)?;
    let status = agent.run(&["status"])?.is(0)?;
    ensure!(status.stdout.contains("frozen"), "{}", status.stdout);
    ensure!(agent.recover()? == ["held"], "it was not held");
    stands_still(&cgroup, &workload)?;
    agent.run(&["thaw", &pid])?.is(0)?;
    workload.advances()?;
    agent.is_idle()?;
    // Killed in between: what was not said to be done is taken back, what was is kept.
    agent.run_with("freeze-begun=kill", &freeze)?.is(-9)?;
    ensure!(agent.recover()? == ["resumed"], "it was not resumed");
    workload.advances()?;
    agent.run_with("freeze-done=kill", &freeze)?.is(-9)?;
    stands_still(&cgroup, &workload)?;
    ensure!(agent.recover()? == ["resumed"], "it was not resumed");
    workload.advances()?;
    agent.run(&freeze)?.is(0)?;
    agent.run_with("thaw-begun=kill", &["thaw", &pid])?.is(-9)?;
    ensure!(agent.recover()? == ["resumed"], "it was not resumed");
    workload.advances()?;
    agent.is_idle()?;
    workload.finish()
}
