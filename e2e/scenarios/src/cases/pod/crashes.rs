//! The agent, the runtime and CRIU are killed in the middle of a pod's checkpoint.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::tool::{NOTHING, checkpoint, shell, stored};
use crate::case::{Case, Lab};
use crate::cases::agent::tool::{Agent, case, of, until};
use crate::containers::{Contents, Device, Pod, PodOptions, Resident, WORKLOAD};
use crate::proc;

pub(crate) const CASES: &[Case] = &[
    case("pod/the_agent_is_killed", 3000, agent_killed),
    case("pod/criu_or_the_runtime_is_killed", 1500, others_killed),
];

/// Before any of these the checkpoint is not known to be stored: whatever was asked for, it runs again.
const BEFORE: [&str; 11] = [
    "checkpoint-begun",
    "pod-answering",
    "pod-frozen",
    "checkpoint-frozen",
    "dump-started",
    "pod-container-dumped",
    "dump-done",
    "pod-frozen-again",
    "checkpoint-thawed",
    "before-commit",
    "committed",
];

/// Here it is known, and what was asked for is done.
const AFTER: [&str; 2] = ["checkpoint-stored", "checkpoint-settled"];

/// Of these there is one for each way in which a pod may end.
const EACH: [&str; 4] = [
    "pod-frozen",
    "dump-done",
    "checkpoint-stored",
    "checkpoint-settled",
];

/// The workload, and a program that listens.
fn pod(lab: &mut Lab, contents: &'static str) -> Result<(Pod, Resident)> {
    let mut pod = Pod::start(lab, "train", &PodOptions::default())?;
    let gpu = Device::of_gpus(&lab.sim, &[0])?;
    let command = [
        WORKLOAD,
        "--state",
        "/work/state",
        "--bo",
        contents,
        "--queues",
        "sdma=1",
    ];
    let pid = pod.run(&Contents {
        devices: &gpu,
        ..Contents::new("gpu", &command)
    })?;
    let resident = Resident::in_root(pid, &pod.root("gpu"))?;
    let listen = "exec /bin/busybox httpd -f -p 7000 -h /work";
    shell(&mut pod, "listens", listen, NOTHING)?;
    Ok((pod, resident))
}

fn goes_on(agent: &Agent, pod: &Pod, resident: &Resident) -> Result<()> {
    ensure!(!pod.is_frozen()?, "the pod is frozen");
    for name in ["gpu", "listens"] {
        ensure!(!pod.container_is_frozen(name)?, "{name} is frozen");
    }
    resident.workload.advances()?;
    let answering = proc::all()?;
    let answering = answering
        .iter()
        .find(|(_, command)| command.contains("answer-probes"));
    ensure!(
        answering.is_none(),
        "connections are kept away: {answering:?}"
    );
    agent.is_idle()
}

fn agent_killed(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let (mut pod, mut resident) = self::pod(lab, "vram:192K:2")?;
    for after in ["--keep-frozen", "--leave-running", "--stop"] {
        for point in BEFORE.iter().chain(&AFTER) {
            let say = || format!("{after} at {point}");
            let all = after == "--keep-frozen";
            if !all && !EACH.contains(point) {
                continue;
            }
            let listed = agent.listed()?.len();
            agent
                .run_with(&format!("{point}=kill"), &checkpoint(&pod, after))?
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
            let wanted = match (AFTER.contains(point), after, *point) {
                (true, "--keep-frozen", _) | (true, "--stop", "checkpoint-settled") => "held",
                (true, "--stop", _) => "stopped",
                _ => "resumed",
            };
            ensure!(done == [wanted], "{}: {done:?}", say());
            match (after, AFTER.contains(point)) {
                ("--keep-frozen", true) => {
                    ensure!(pod.is_frozen()?, "{}: it runs", say());
                    agent.run(&["thaw", "--override", &pod.uid])?.is(0)?;
                    goes_on(&agent, &pod, &resident).with_context(say)?;
                }
                ("--stop", true) => {
                    ensure!(pod.is_empty()?, "{}: somebody is left", say());
                    drop(resident);
                    drop(pod);
                    agent.recover()?;
                    agent.is_idle().with_context(say)?;
                    (pod, resident) = self::pod(lab, "vram:192K:2")?;
                }
                _ => goes_on(&agent, &pod, &resident).with_context(say)?,
            }
        }
    }
    resident.workload.prove()?;
    stored(&agent, &pod, "--leave-running")?;
    agent.run(&["image", "verify", "--deep"])?.is(0)?;
    resident.workload.finish()
}

fn kill(pid: i32) -> Result<()> {
    Ok(kill_process(
        Pid::from_raw(pid).context("a pid")?,
        Signal::KILL,
    )?)
}

/// In the middle of the GPU's contents: the one, or the other, and the agent with it.
fn others_killed(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let (pod, resident) = self::pod(lab, "vram:64M")?;
    for (who, words) in [("CRIU", "criu: dump "), ("runc", "runc --root ")] {
        for agent_too in [false, true] {
            let say = || format!("{who} is killed, the agent too: {agent_too}");
            lab.sim.set("delay_us_per_mib", "100000")?;
            lab.sim.reset_counters()?;
            let child = agent.start(&checkpoint(&pod, "--keep-frozen"))?;
            until("the dump begins", || {
                Ok(lab.sim.counter("process_info")? > 0)
            })?;
            let all = proc::all()?;
            let victim = all.iter().find(|(_, command)| command.contains(words));
            let victim = victim.with_context(|| format!("no {who} runs: {all:?}"))?.0;
            if agent_too {
                kill(i32::try_from(child.id())?)?;
            }
            kill(victim)?;
            let ended = of(&child.wait_with_output()?);
            lab.sim.set("delay_us_per_mib", "0")?;
            let said = if agent_too {
                ended.is(-9).with_context(say)?;
                agent.recover_says("resumed").with_context(say)?
            } else {
                ended.is(2).with_context(say)?.stderr
            };
            goes_on(&agent, &pod, &resident).with_context(|| format!("{}: {said}", say()))?;
            ensure!(
                agent.listed()?.is_empty(),
                "{}: {:?}",
                say(),
                agent.listed()?
            );
        }
    }
    resident.workload.prove()?;
    stored(&agent, &pod, "--leave-running")?;
    resident.workload.prove()?;
    resident.workload.finish()
}
