//! From one machine to another and back.

use anyhow::{Context, Result, ensure};

use super::tool::{Agent, OwnCgroup, case, restored_cgroups};
use crate::case::{Case, Lab};
use crate::cases::round_trip::{OTHER, SMALL};
use crate::proc;

pub(crate) const CASES: &[Case] = &[
    case(
        "agent/carried_to_another_machine_and_back",
        300,
        there_and_back,
    ),
    case("agent/a_tree_in_a_shared_cgroup", 120, shared_cgroup),
    case("agent/upload_follows_the_dump", 360, follows),
];

/// Two generations, on GPUs with other ids each time, through a store.
fn there_and_back(lab: &mut Lab) -> Result<()> {
    let machines = ["preset=gfx90a-2", &format!("preset=gfx90a-2 {OTHER}")];
    lab.sim.load(machines[0])?;
    let a = Agent::new(lab)?;
    let b = a.elsewhere(lab)?;
    let cgroup = OwnCgroup::new()?;
    let mut workload = cgroup.start(lab, SMALL)?;
    for (from, to, machine) in [(&a, &b, machines[1]), (&b, &a, machines[0])] {
        let report = from.checkpoint(&workload, "--stop")?.is(0)?.json()?;
        let id = report["id"].as_str().context("no id")?.to_owned();
        ensure!(report["frozen_ms"].as_u64() > Some(0), "{report}");
        proc::wait_reaped(workload.pid)?;
        from.is_idle()?;
        lab.sim.load(machine)?;
        to.restore(&id, &mut workload)?;
        workload.prove()?;
        workload.advances()?;
        to.is_idle()?;
        lab.no_stray_access()?;
    }
    ensure!(cgroup.is_empty()?, "it is not where it was restored");
    ensure!(a.listed()?.len() == 2, "{:?}", a.listed()?);
    workload.finish()?;
    a.recover()?;
    let left = restored_cgroups()?;
    ensure!(left.is_empty(), "cgroups were left: {left:?}");
    Ok(())
}

/// It can be dumped and goes on; it cannot be frozen, since others would be.
fn shared_cgroup(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let workload = lab.workload(SMALL)?;
    for after in ["--stop", "--keep-frozen"] {
        let report = agent.checkpoint(&workload, after)?.is(1)?.json()?;
        ensure!(report["findings"][0]["about"] == "cgroup", "{report}");
        workload.advances()?;
    }
    let pid = workload.pid.to_string();
    agent
        .run(&["freeze", "--runtime", "bare", &pid])?
        .is(1)?
        .says(&["no cgroup"])?;
    agent.checkpoint(&workload, "--leave-running")?.is(0)?;
    workload.advances()?;
    workload.prove()?;
    agent.is_idle()?;
    ensure!(agent.listed()?.len() == 1, "{:?}", agent.listed()?);
    workload.finish()
}

/// What CRIU has written is sent while it still writes: of a dump with a slow end little is left to do.
fn follows(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, &["--bo", "vram:24M:2", "--child", "gpu"])?;
    // The contents of the first process are sent while those of the second one are copied.
    lab.sim.set("delay_us_per_mib", "60000")?;
    let report = agent
        .checkpoint(&workload, "--leave-running")?
        .is(0)?
        .json()?;
    lab.sim.set("delay_us_per_mib", "0")?;
    ensure!(
        report["sent_during_dump"].as_u64() > Some(8 << 20),
        "{report}"
    );
    workload.advances()?;
    let id = report["id"].as_str().context("no id")?;
    // Cut at the starts of buffer objects, which the store labels.
    let shown = agent.run(&["image", "inspect", id])?.is(0)?;
    ensure!(shown.stdout.contains("BO at"), "{}", shown.stdout);
    agent.run(&["image", "verify", "--deep"])?.is(0)?;
    workload.finish()
}
