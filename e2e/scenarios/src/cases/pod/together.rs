//! All containers of a pod are those of one instant, with what they share.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::tool::{NOTHING, id, pulled, shell, stored};
use crate::case::{Case, Lab};
use crate::cases::agent::tool::{Agent, case, until};
use crate::cases::containers::COMMAND;
use crate::containers::{Contents, Device, Pod, PodOptions, Resident, Volume};

pub(crate) const CASES: &[Case] = &[case("pod/frozen_at_one_instant", 900, one_instant)];

/// Two programs that take turns: each writes its number to the shared file, counts it in a file of its own, and waits
/// for the other's. At any instant what they have differs by one at most.
const FIRST: &str = "exec 3< /shared/log; i=0; while :; do i=$((i+1)); echo \"first $i\" >> /shared/log; echo $i >> /work/count; \
while :; do read -r who k <&3; [ \"$who $k\" = \"second $i\" ] && break; done; done";
const SECOND: &str = "exec 3< /shared/all/log; i=0; while :; do i=$((i+1)); \
while :; do read -r who k <&3; [ \"$who $k\" = \"first $i\" ] && break; done; echo \"second $i\" >> /shared/all/log; echo $i >> /work/count; done";

/// A pod of three containers: the workload on a GPU, and the two. The second one sees the volume by a sub-path.
fn pod(lab: &mut Lab) -> Result<(Pod, Resident)> {
    let mut pod = Pod::start(lab, "train", &PodOptions::default())?;
    let gpu = Device::of_gpus(&lab.sim, &[0])?;
    let pid = pod.run(&Contents {
        devices: &gpu,
        ..Contents::new("gpu", COMMAND)
    })?;
    let resident = Resident::in_root(pid, &pod.root("gpu"))?;
    let folder = pod.volume("turns").join("below");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("log"), "")?;
    for (name, script, sub_path, destination) in [
        ("first", FIRST, "below", "/shared"),
        ("second", SECOND, "", "/shared"),
    ] {
        let volumes = [Volume {
            name: "turns",
            sub_path,
            destination,
        }];
        let script = script.replace("/shared/all", "/shared/below");
        let contents = Contents {
            volumes: &volumes,
            ..NOTHING
        };
        shell(&mut pod, name, &script, contents)?;
    }
    Ok((pod, resident))
}

/// The last number of a file of numbers.
fn last(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let line = text.lines().next_back().unwrap_or("0");
    line.parse().with_context(|| format!("{line:?}"))
}

/// Turns of both so far.
fn turns(log: &Path) -> Result<[u64; 2]> {
    let text = fs::read_to_string(log)?;
    let count =
        |who: &str| u64::try_from(text.lines().filter(|line| line.starts_with(who)).count());
    Ok([count("first ")?, count("second ")?])
}

fn one_instant(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let agent = Agent::new(lab)?;
    let (pod, resident) = pod(lab)?;
    let traces = resident.leave_traces()?;
    let log = pod.volume("turns").join("below/log");
    until("turns", || Ok(turns(&log)?[1] > 10))?;

    let report = stored(&agent, &pod, "--leave-running")?;
    let before = turns(&log)?;
    until("more turns", || Ok(turns(&log)?[1] > before[1]))?;
    ensure!(
        !pod.is_frozen()? && !pod.container_is_frozen("first")?,
        "it is frozen"
    );
    resident.is_as(&traces)?;
    agent.is_idle()?;
    let id = id(&report)?;
    agent.run(&["image", "verify", "--deep", &id])?.is(0)?;

    let dir = pulled(&agent, lab, &id)?;
    let record: Value = serde_json::from_slice(&fs::read(dir.join("pod.json"))?)?;
    ensure!(record == report["pod"], "{record} is not {}", report["pod"]);
    let names: Vec<&str> = record["containers"]
        .as_array()
        .context("no containers")?
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    ensure!(names == ["gpu", "first", "second"], "{names:?}");
    ensure!(
        record["uid"] == pod.uid && record["sharedMemory"] == true,
        "{record}"
    );
    let volume = &record["volumes"][0];
    ensure!(
        volume["name"] == "turns"
            && volume["mounts"][0]["subPath"] == "below"
            && volume["mounts"][1]["container"] == "second",
        "{volume}"
    );
    for name in names {
        for file in [
            "checkpoint/inventory.img",
            "spec.dump",
            "config.dump",
            "container.log",
        ] {
            let path = dir.join("containers").join(name).join(file);
            ensure!(path.is_file(), "no {}", path.display());
        }
    }
    ensure!(dir.join("shm/kept").is_file(), "/dev/shm is not there");
    let stopped = turns(&dir.join("volumes/turns/below/log"))?;
    let own = |name: &str| {
        last(
            &dir.join("containers")
                .join(name)
                .join("rootfs-diff/work/count"),
        )
    };
    let (first, second) = (own("first")?, own("second")?);
    let off = |count: u64, turns: u64| count == turns || count + 1 == turns;
    ensure!(
        off(stopped[1], stopped[0])
            && off(first, stopped[0])
            && off(second, stopped[1])
            && stopped[1] > 0,
        "not of one instant: {stopped:?} turns, of which they know {first} and {second}"
    );
    lab.no_stray_access()?;
    resident.workload.finish()
}
