//! Checkpoints and restores that fail, take too long, are interrupted or make no sense: nothing is listed, nothing is
//! left, and what ran runs.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::tool::{Agent, OwnCgroup, case, checkpoint, nobody_runs, of, restored_cgroups, until};
use crate::case::{Case, Lab};
use crate::cases::round_trip::SMALL;
use crate::proc;
use crate::workload::Workload;

pub(crate) const CASES: &[Case] = &[
    case("agent/a_failed_dump_leaves_it_running", 180, failed_dump),
    case("agent/a_dump_that_takes_too_long", 120, too_long),
    case("agent/an_interrupted_dump", 120, interrupted),
    case("agent/a_store_that_is_not_there", 60, no_store),
    case("agent/refused_before_anything_is_frozen", 60, refused),
    case("agent/criu_is_killed", 600, criu_killed),
    case("agent/a_failed_restore_leaves_nothing", 180, failed_restore),
    case("agent/a_machine_that_does_not_fit", 120, misfit),
];

const AFTER: [&str; 3] = ["--leave-running", "--keep-frozen", "--stop"];

/// So slow that a dump of these contents takes longer than any test waits for its beginning.
const SLOW: &str = "100000";
const CONTENTS: &[&str] = &["--bo", "vram:64M"];

fn goes_on(agent: &Agent, cgroup: &OwnCgroup, workload: &Workload) -> Result<()> {
    ensure!(!cgroup.is_frozen()?, "it is frozen");
    workload.advances()?;
    ensure!(agent.listed()?.is_empty(), "{:?}", agent.listed()?);
    agent.is_idle()
}

fn failed_dump(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, SMALL)?;
    for after in AFTER {
        lab.sim.fault("kfd.criu_op.checkpoint 1 ENOMEM")?;
        agent
            .checkpoint(&workload, after)?
            .is(2)?
            .says(&["Dump failed", "CRIU_OP CHECKPOINT failed"])?;
        lab.sim.clear_faults()?;
        goes_on(&agent, &cgroup, &workload)?;
    }
    workload.prove()?;
    agent.checkpoint(&workload, "--leave-running")?.is(0)?;
    workload.finish()
}

fn too_long(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, CONTENTS)?;
    lab.sim.set("delay_us_per_mib", SLOW)?;
    for after in AFTER {
        let begun = Instant::now();
        let pid = workload.pid.to_string();
        let mut words = checkpoint(&pid, after).to_vec();
        words.extend(["--timeout", "1s"]);
        agent.run(&words)?.is(2)?.says(&["not done after 1 s"])?;
        ensure!(
            begun.elapsed() < Duration::from_secs(30),
            "{:?}",
            begun.elapsed()
        );
        goes_on(&agent, &cgroup, &workload)?;
    }
    lab.sim.set("delay_us_per_mib", "0")?;
    agent.checkpoint(&workload, "--leave-running")?.is(0)?;
    workload.prove()?;
    workload.finish()
}

fn interrupted(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, CONTENTS)?;
    let pid = workload.pid.to_string();
    for (signal, word) in [(Signal::INT, "interrupted"), (Signal::TERM, "terminated")] {
        lab.sim.set("delay_us_per_mib", SLOW)?;
        lab.sim.reset_counters()?;
        let child = agent.start(&checkpoint(&pid, "--keep-frozen"))?;
        let agent_pid = i32::try_from(child.id())?;
        until("the dump begins", || {
            Ok(lab.sim.counter("process_info")? > 0)
        })?;
        kill_process(Pid::from_raw(agent_pid).context("a pid")?, signal)?;
        of(&child.wait_with_output()?).is(2)?.says(&[word])?;
        lab.sim.set("delay_us_per_mib", "0")?;
        goes_on(&agent, &cgroup, &workload)?;
    }
    workload.prove()?;
    workload.finish()
}

/// The CRIU that works on GPUs now.
fn criu() -> Result<i32> {
    let found = proc::all()?;
    let found = found
        .iter()
        .find(|(_, command)| command.starts_with("criu "));
    Ok(found.context("no CRIU runs")?.0)
}

/// In the middle of the contents: of a dump, of the agent too, of a restore.
fn criu_killed(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let mut workload = cgroup.start(lab, &["--bo", "vram:64M", "--queues", "sdma=1"])?;
    let pid = workload.pid.to_string();
    let kill = |pid: i32| -> Result<()> {
        kill_process(Pid::from_raw(pid).context("a pid")?, Signal::KILL)?;
        Ok(())
    };
    for after in AFTER {
        for agent_too in [false, true] {
            lab.sim.set("delay_us_per_mib", SLOW)?;
            lab.sim.reset_counters()?;
            let child = agent.start(&checkpoint(&pid, after))?;
            until("the dump begins", || {
                Ok(lab.sim.counter("process_info")? > 0)
            })?;
            if agent_too {
                kill(i32::try_from(child.id())?)?;
            }
            kill(criu()?)?;
            let ended = of(&child.wait_with_output()?);
            lab.sim.set("delay_us_per_mib", "0")?;
            let said = if agent_too {
                ended.is(-9)?;
                agent.recover_says("resumed")?
            } else {
                ended.is(2)?.says(&["Dump failed", "signal: 9"])?.stderr
            };
            goes_on(&agent, &cgroup, &workload)
                .with_context(|| format!("{after}, agent too: {agent_too}: {said}"))?;
        }
    }
    workload.prove()?;
    let report = agent.checkpoint(&workload, "--stop")?.is(0)?.json()?;
    let id = report["id"].as_str().context("no id")?.to_owned();
    proc::wait_reaped(workload.pid)?;
    lab.sim.set("delay_us_per_mib", SLOW)?;
    let child = agent.start(&["restore", "--runtime", "bare", &id])?;
    until("the restore begins", || {
        Ok(lab.sim.calls("kfd.criu_op.restore")? > 0)
    })?;
    kill(criu()?)?;
    of(&child.wait_with_output()?)
        .is(2)?
        .says(&["Restore failed"])?;
    lab.sim.set("delay_us_per_mib", "0")?;
    nobody_runs()?;
    agent.is_idle()?;
    agent.restore(&id, &mut workload)?;
    workload.prove()?;
    workload.finish()
}

fn no_store(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, SMALL)?;
    let pid = workload.pid.to_string();
    let mut words = checkpoint(&pid, "--stop").to_vec();
    words.extend(["--to", "file:///run/rocferry/nowhere"]);
    agent.run(&words)?.is(2)?.says(&["nowhere"])?;
    goes_on(&agent, &cgroup, &workload)?;
    workload.finish()
}

fn refused(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, SMALL)?;
    let pid = workload.pid.to_string();
    let empty = lab.folder("empty")?;
    let empty = empty.to_str().context("a path")?.to_owned();
    lab.sim.reset_counters()?;
    for (more, about) in [
        (["--plugins", &empty], "plugin"),
        (["--criu", "/nowhere/criu"], "criu"),
    ] {
        let mut words = checkpoint(&pid, "--stop").to_vec();
        words.extend(more);
        let report = agent.run(&words)?.is(1)?.json()?;
        ensure!(report["findings"][0]["about"] == about, "{report}");
    }
    lab.calls_were(&[("process_info", 0)])?;
    goes_on(&agent, &cgroup, &workload)?;
    let own = std::process::id().to_string();
    agent
        .run(&checkpoint("4294967", "--stop"))?
        .is(2)?
        .says(&["no such process"])?;
    // The check alone touches nothing either.
    agent.run(&["checkpoint", "--runtime", "bare", "--check", &own])?;
    workload.finish()
}

fn failed_restore(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let known = restored_cgroups()?;
    let cgroup = OwnCgroup::new()?;
    let mut workload = cgroup.start(lab, SMALL)?;
    let report = agent.checkpoint(&workload, "--stop")?.is(0)?.json()?;
    let id = report["id"].as_str().context("no id")?.to_owned();
    proc::wait_reaped(workload.pid)?;
    for (fault, word) in [
        ("kfd.criu_op.restore 1 EINVAL", "CRIU_OP RESTORE failed"),
        ("kfd.criu_op.resume 1 ESRCH", ""),
    ] {
        lab.sim.fault(fault)?;
        agent
            .run(&["restore", "--runtime", "bare", &id])?
            .is(2)?
            .says(&[word])?;
        lab.sim.clear_faults()?;
        nobody_runs()?;
        agent.is_idle()?;
        let mut left = restored_cgroups()?;
        left.retain(|cgroup| !known.contains(cgroup));
        ensure!(left.is_empty(), "cgroups were left: {left:?}");
    }
    agent
        .run(&["restore", "--runtime", "runc", &id])?
        .is(1)?
        .says(&["cannot restore"])?;
    agent.restore(&id, &mut workload)?;
    workload.prove()?;
    workload.finish()
}

fn misfit(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, SMALL)?;
    let report = agent.checkpoint(&workload, "--stop")?.is(0)?.json()?;
    let id = report["id"].as_str().context("no id")?.to_owned();
    proc::wait_reaped(workload.pid)?;
    lab.sim.load("preset=gfx8-1")?;
    lab.sim.reset_counters()?;
    let report = agent
        .run(&["restore", "--runtime", "bare", "--json", &id])?
        .is(1)?
        .json()?;
    ensure!(report["findings"][0]["about"] == "topology", "{report}");
    agent.is_idle()?;
    nobody_runs()?;
    // A moment for whatever might come late.
    sleep(Duration::from_millis(50));
    nobody_runs()
}
