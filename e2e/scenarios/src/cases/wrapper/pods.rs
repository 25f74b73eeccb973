//! Whole pods: prepared by the agent, restored held by the wrapper, let go at one instant.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::super::agent::tool::{Agent, case as long_case, until};
use super::super::round_trip::OTHER;
use super::super::systemd::reload;
use super::pod_tool::{Dumped, Machine, Spec, decide, while_it_could_run};
use crate::case::{Case, Lab};
use crate::containers::{PluginForAll, Pod};

pub(super) const CASES: &[Case] = &[
    long_case("wrapper/pod_goes_on_at_one_instant", 600, at_one_instant),
    long_case("wrapper/pod_killed_midway", 600, killed_midway),
];

const MACHINE: &str = "preset=gfx90a-4";

/// Dumps a pod on one machine; the other machine.
fn moved(lab: &mut Lab) -> Result<(Dumped, Machine)> {
    lab.sim.load(MACHINE)?;
    let source = Agent::new(lab)?;
    let dumped = Dumped::new(lab, &source)?;
    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    let folder = lab.folder("state")?;
    let target = source.elsewhere(lab)?;
    Ok((dumped, Machine::new(lab, target, folder, 2)?))
}

/// Its containers must not be made: the reason.
fn refused(made: &Result<i32>, pod: &Pod, words: &str) -> Result<()> {
    ensure!(made.is_err(), "it was made");
    let reason = pod.reason();
    ensure!(
        reason.contains(words),
        "the reason does not say {words:?}: {reason}"
    );
    Ok(())
}

fn at_one_instant(lab: &mut Lab) -> Result<()> {
    let _plugin = PluginForAll::install()?;
    let (dumped, machine) = moved(lab)?;
    let agent = &machine.agent;
    let mut pod = machine.pod(lab)?;
    let spec = Spec::of(&machine, dumped.outside())?;
    let uid = pod.uid.clone();
    let thaw = ["thaw", "--pod-uid", &uid];

    // Whoever signed it, and for whom, counts.
    let prepare = dumped.prepare(&uid);
    let without = |gone: &str| -> Vec<&str> {
        let at = prepare.iter().position(|word| *word == gone).unwrap_or(0);
        [&prepare[..at], &prepare[at + 2..]].concat()
    };
    agent
        .run(&without("--trust"))?
        .is(2)?
        .says(&["No key is trusted", "--trust"])?;
    agent
        .run(&[&without("--for")[..], &["--for", "team/other"]].concat())?
        .is(2)?
        .says(&["bound to pod train"])?;
    refused(
        &spec.main(&mut pod),
        &pod,
        "marked for a restore, and has no ticket",
    )?;

    agent.run(&prepare)?.is(0)?;
    agent.run(&prepare)?.is(0)?;
    agent.run(&thaw)?.is(1)?.says(&["not committed yet"])?;
    agent.run(&decide(&uid, &["commit"]))?.is(0)?;
    agent
        .run(&thaw)?
        .is(1)?
        .says(&["nothing says that its source is gone"])?;
    agent
        .run(&decide(&uid, &["abort"]))?
        .is(2)?
        .says(&["decided once"])?;
    agent
        .run(&decide(&uid, &["commit", "--source", "gone"]))?
        .is(0)?;
    agent
        .run(&thaw)?
        .is(1)?
        .says(&["container main", "not there yet"])?;

    spec.main(&mut pod)?;
    ensure!(
        machine.ticket(&pod, "main")? == "held",
        "it is {}",
        machine.ticket(&pod, "main")?
    );
    agent
        .run(&thaw)?
        .is(1)?
        .says(&["container side", "not there yet"])?;
    spec.side(&mut pod)?;
    reload()?;
    // A kubelet does this to its containers whenever it likes.
    let side = pod.id("side");
    pod.runtime(&["update", "--cpu-share", "512", &side])?
        .ok()?;
    while_it_could_run();
    dumped.has_not_run(&pod)?;
    agent
        .run(&["discard", "--pod-uid", &uid])?
        .is(1)?
        .says(&["is held"])?;

    // Killed for want of memory, or by the kubelet: made again, and held again. Its volume is not filled twice.
    let once = pod.volume("scratch").join("once");
    fs::remove_file(&once).context("the volume was not filled")?;
    fs::write(pod.container_cgroup("side").join("cgroup.kill"), "1")?;
    pod.remove("side")?;
    agent
        .run(&thaw)?
        .is(1)?
        .says(&["container side", "has ended"])?;
    spec.side(&mut pod)?;
    while_it_could_run();
    dumped.has_not_run(&pod)?;
    // A second one beside the first would be a second copy.
    let first = pod.id("main");
    refused(&spec.main(&mut pod), &pod, "is held already")?;
    ensure!(
        machine.ticket(&pod, "main")? == "held",
        "the first one's ticket has changed"
    );
    pod.runtime(&["delete", "--force", &first])?.ok()?;
    let main = spec.main(&mut pod)?;
    dumped.has_not_run(&pod)?;

    agent.run(&thaw)?.is(0)?;
    let resident = dumped.goes_on(&pod, main)?;
    ensure!(!once.exists(), "the volume was filled twice");
    for name in ["main", "side"] {
        ensure!(
            machine.ticket(&pod, name)? == "used",
            "{name} is not used up"
        );
        ensure!(!pod.container_is_frozen(name)?, "{name} is frozen");
    }
    agent.run(&thaw)?.is(1)?.says(&["was thawed"])?;
    agent.is_idle()?;
    resident.workload.finish()?;
    // Used up: a restart of it does as it was told to.
    pod.remove("main")?;
    refused(&spec.main(&mut pod), &pod, "refuses to start it again")?;
    drop(pod);
    agent.run(&["discard", "--all", "--pod-uid", &uid])?.is(0)?;
    let left = agent.run(&["status", "--tickets"])?.is(0)?.stdout;
    ensure!(left.is_empty(), "left: {left}");
    Ok(())
}

/// The agent killed in the middle of each step: nothing is half done after its next start.
fn killed_midway(lab: &mut Lab) -> Result<()> {
    let _plugin = PluginForAll::install()?;
    let (mut dumped, machine) = moved(lab)?;
    let agent = &machine.agent;
    let mut pod = machine.pod(lab)?;
    let uid = pod.uid.clone();
    let prepare: Vec<String> = dumped
        .prepare(&uid)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let prepare: Vec<&str> = prepare.iter().map(String::as_str).collect();
    let outside = dumped.outside().to_owned();
    let spec = Spec::of(&machine, &outside)?;
    for point in ["prepare-begun", "prepare-pulled", "prepare-ticket"] {
        for end in ["kill", "fail"] {
            let what = || format!("{point} {end}");
            let code = if end == "kill" { -9 } else { 2 };
            agent
                .run_with(&format!("{point}={end}"), &prepare)?
                .is(code)
                .with_context(what)?;
            if end == "kill" {
                ensure!(agent.recover()? == ["discarded"], "{point}");
            }
            agent.is_idle().with_context(what)?;
            let left = agent.run(&["status", "--tickets"])?.is(0)?.stdout;
            ensure!(left.is_empty(), "{point}: left: {left}");
            refused(&spec.side(&mut pod), &pod, "has no ticket").with_context(what)?;
        }
    }
    // Gone on with, where nobody has put it right in between.
    agent.run_with("prepare-pulled=kill", &prepare)?.is(-9)?;
    agent.run(&prepare)?.is(0)?;
    ensure!(
        agent.recover()? == ["discarded"],
        "the record of the first one"
    );
    ensure!(
        machine.ticket(&pod, "main")? == "ready",
        "what is whole was discarded"
    );
    thawed(&mut dumped, &machine, &mut pod, "thaw-begun")?;
    drop(pod);
    let mut pod = machine.pod(lab)?;
    agent.run(&dumped.prepare(&pod.uid.clone()))?.is(0)?;
    thawed(&mut dumped, &machine, &mut pod, "thaw-marked")
}

/// Restores it, kills the agent in the middle of the thaw, and has that put right.
fn thawed(dumped: &mut Dumped, machine: &Machine, pod: &mut Pod, point: &str) -> Result<()> {
    let agent = &machine.agent;
    let outside = dumped.outside().to_owned();
    let spec = Spec::of(machine, &outside)?;
    let main = spec.main(pod)?;
    spec.side(pod)?;
    let uid = pod.uid.clone();
    agent
        .run(&decide(&uid, &["commit", "--source", "fenced"]))?
        .is(0)?;
    let thaw = ["thaw", "--pod-uid", &uid];
    agent.run_with(&format!("{point}=kill"), &thaw)?.is(-9)?;
    while_it_could_run();
    dumped.has_not_run(pod).with_context(|| point.to_owned())?;
    match point {
        "thaw-begun" => agent.run(&thaw)?.is(0).map(drop)?,
        _ => ensure!(agent.recover()? == ["thawed"], "{point}: it is not thawed"),
    }
    dumped.goes_on(pod, main)?;
    agent.is_idle()?;
    // Whoever comes next begins where this one did, and is heard after it.
    fs::write(pod.cgroup().join("cgroup.kill"), "1")?;
    until("the pod has ended", || pod.is_empty())?;
    dumped.is_heard_from_here();
    Ok(())
}
