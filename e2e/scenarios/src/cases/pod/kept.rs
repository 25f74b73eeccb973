//! A pod that is kept frozen, thawed, stopped, deleted.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::tool::{
    NOTHING, WRITERS, checkpoint, id, shell, stored, write_nothing_more, write_on, written,
};
use crate::case::{Case, Lab};
use crate::cases::agent::tool::{Agent, case};
use crate::cases::systemd::reload;
use crate::containers::{Contents, Pod, PodOptions};

pub(crate) const CASES: &[Case] = &[
    case("pod/kept_frozen_thawed_and_stopped", 900, kept),
    case("pod/deleted_while_it_is_kept_frozen", 600, deleted),
    case("pod/frozen_without_a_checkpoint", 600, frozen),
];

fn kept(lab: &mut Lab) -> Result<()> {
    let agent = Agent::new(lab)?;
    let data = lab.folder("data")?;
    let mut pod = Pod::start(lab, "writers", &PodOptions::default())?;
    let name = format!("{}/{}", pod.namespace, pod.name);
    let more = Contents {
        host_paths: &[(&data, "/data")],
        ..NOTHING
    };
    shell(&mut pod, "writers", WRITERS, more)?;
    write_on(&data)?;

    stored(&agent, &pod, "--keep-frozen")?;
    ensure!(pod.is_frozen()?, "the pod runs");
    let since = written(&data);
    reload()?;
    // A kubelet does this to its containers whenever it likes.
    let id = pod.id("writers");
    pod.runtime(&["update", "--cpu-share", "512", &id])?.ok()?;
    write_nothing_more(&data, &since)?;
    let journal = agent.journal()?;
    ensure!(
        journal.len() == 1 && journal[0]["phase"] == "held" && journal[0]["frozen"] == true,
        "{journal:?}"
    );
    ensure!(agent.recover()? == ["held"], "it was not held");
    // Not the container alone: CRIU could not work in it.
    let container = pod.id("writers");
    agent
        .run(&["checkpoint", "--json", &container])?
        .is(1)
        .and_then(|ended| super::tool::finds(&ended, "frozen", &["--pod"]))?;
    // A second one of the same state; the pod stays frozen when it fails, too.
    agent
        .run_with("dump-done=fail", &checkpoint(&pod, "--leave-running"))?
        .is(2)?;
    write_nothing_more(&data, &since)?;
    ensure!(pod.is_frozen()?, "the pod runs");
    stored(&agent, &pod, "--leave-running")?;
    write_nothing_more(&data, &since)?;
    agent.run(&["thaw", &name])?.is(1)?.says(&["--override"])?;
    agent.run(&["thaw", "--override", &name])?.is(0)?;
    write_on(&data)?;
    agent.is_idle()?;

    stored(&agent, &pod, "--keep-frozen")?;
    let since = written(&data);
    agent.run(&["stop", &name])?.is(0)?;
    ensure!(pod.is_empty()?, "somebody is left");
    write_nothing_more(&data, &since)?;
    // What is started in it again does not run, until the pod is gone.
    ensure!(agent.recover()? == ["held"], "nobody keeps others out");
    ensure!(pod.is_frozen()?, "the pod would run");
    drop(pod);
    ensure!(agent.recover()? == ["held"], "the record stays");
    agent.is_idle()
}

fn deleted(lab: &mut Lab) -> Result<()> {
    let agent = Agent::new(lab)?;
    for after in ["--keep-frozen", "--stop"] {
        let data = lab.folder("data")?;
        let mut pod = Pod::start(lab, "writers", &PodOptions::default())?;
        let more = Contents {
            host_paths: &[(&data, "/data")],
            ..NOTHING
        };
        shell(&mut pod, "writers", WRITERS, more)?;
        write_on(&data)?;
        let report = stored(&agent, &pod, after)?;
        let since = written(&data);
        if after == "--stop" {
            ensure!(pod.is_empty()?, "somebody is left");
        } else {
            let id = pod.id("writers");
            pod.runtime(&["kill", &id, "KILL"])?;
            write_nothing_more(&data, &since)?;
        }
        pod.remove("writers")?;
        pod.remove("sandbox")?;
        write_nothing_more(&data, &since)?;
        drop(pod);
        write_nothing_more(&data, &since)?;
        agent.recover()?;
        agent.is_idle()?;
        agent
            .run(&["image", "verify", "--deep", &id(&report)?])?
            .is(0)?;
    }
    Ok(())
}

fn frozen(lab: &mut Lab) -> Result<()> {
    let agent = Agent::new(lab)?;
    let data = lab.folder("data")?;
    let mut pod = Pod::start(lab, "writers", &PodOptions::default())?;
    let more = Contents {
        host_paths: &[(&data, "/data")],
        ..NOTHING
    };
    shell(&mut pod, "writers", WRITERS, more)?;
    write_on(&data)?;
    // By the id of a container.
    let container = pod.id("writers");
    agent.run(&["freeze", "--pod", &container])?.is(0)?;
    let since = written(&data);
    write_nothing_more(&data, &since)?;
    agent
        .run(&["freeze", "--pod", &pod.uid])?
        .is(1)?
        .says(&["frozen already"])?;
    agent
        .run(&["stop", &pod.uid])?
        .is(1)?
        .says(&["no checkpoint"])?;
    let status = agent.run(&["status"])?.is(0)?;
    ensure!(status.stdout.contains("team/writers"), "{}", status.stdout);
    agent.run(&["thaw", &pod.uid])?.is(0)?;
    write_on(&data)?;
    agent.is_idle()?;
    for (fault, words) in [
        ("freeze-begun=kill", ["freeze", "--pod", &pod.uid]),
        ("freeze-done=kill", ["freeze", "--pod", &pod.uid]),
    ] {
        agent.run_with(fault, &words)?.is(-9)?;
        ensure!(agent.recover()? == ["resumed"], "{fault}");
        write_on(&data).context(fault)?;
    }
    agent
        .run(&["checkpoint", "--pod", "nobody/nothing", "--json"])?
        .is(2)?
        .says(&["No pod nobody/nothing"])?;
    ensure!(fs::exists(pod.cgroup())?, "no pod");
    agent.is_idle()
}
