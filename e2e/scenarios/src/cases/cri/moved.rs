//! A pod of two containers with a GPU each: stored, restored held on another machine by the wrapper, let go; and back.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::node::{Node, is_as_any_other, logged, say};
use crate::case::{Case, Lab, Skip};
use crate::cases::agent::tool::{Agent, case, nobody_runs};
use crate::cases::pod::tool::{id, pulled};
use crate::cases::round_trip::OTHER;
use crate::cases::wrapper::pod_tool::{Keys, MAIN, decide, while_it_could_run};
use crate::cases::wrapper::tool::iterations;
use crate::containers::{Contents, CriPod, Device, Resident, Traces, Volume};

pub(super) const CASES: &[Case] = &[case("cri/pod_there_and_back", 1800, there_and_back)];

const MACHINE: &str = "preset=gfx90a-4";
const NAMES: [&str; 2] = ["first", "second"];
const MARK: (&str, &str) = ("rocferry.dev/restore", "request");

/// The pod, and what is known of it while it runs.
struct Pair {
    pod: CriPod,
    ids: [String; 2],
    residents: [Resident; 2],
}

/// What both containers hold.
type Held = [Traces; 2];

/// Makes a container of the pair in a pod. Its id.
fn one(pod: &mut CriPod, name: &str, gpu: &[Device]) -> Result<String> {
    let destination = if name == NAMES[0] { "/data" } else { "/in" };
    let volume = Volume {
        name: "shared",
        sub_path: if name == NAMES[0] { "" } else { "below" },
        destination,
    };
    pod.run(&Contents {
        devices: gpu,
        volumes: &[volume],
        ..Contents::new(name, MAIN)
    })
}

impl Pair {
    fn of(node: &Node, pod: CriPod, ids: [String; 2]) -> Result<Self> {
        let client = node.client()?;
        let resident = |id: &String| Resident::in_root(client.pid(id)?, &client.root(id));
        Ok(Self {
            residents: [resident(&ids[0])?, resident(&ids[1])?],
            pod,
            ids,
        })
    }

    /// A first one, on the first two GPUs of the machine, under containerd's default runtime.
    fn new(lab: &mut Lab, node: &Node) -> Result<(Self, Held)> {
        let mut pod = node.pod(lab, "train")?;
        let mut make = |name: &str, gpu: usize| -> Result<String> {
            one(&mut pod, name, &Device::of_gpus(&lab.sim, &[gpu])?)
        };
        let ids = [make(NAMES[0], 0)?, make(NAMES[1], 1)?];
        let pair = Self::of(node, pod, ids)?;
        let traces = [
            pair.residents[0].leave_traces()?,
            pair.residents[1].leave_traces()?,
        ];
        let below = pair.pod.volume("shared").join("below");
        fs::write(below.join("kept"), "of the volume\n")?;
        Ok((pair, traces))
    }

    /// Stores the pod, which ends, and looks at what was stored. The checkpoint, and how far its programs had come.
    fn stored(
        self,
        lab: &mut Lab,
        node: &Node,
        keys: &Keys,
        said: &str,
    ) -> Result<(String, [u64; 2])> {
        for (name, resident) in NAMES.iter().zip(&self.residents) {
            say(resident.workload.pid, said)?;
            logged(&self.pod.log(name), said)?;
        }
        let words = [
            "checkpoint",
            "--pod",
            &self.pod.uid,
            "--json",
            "--stop",
            "--sign",
            &keys.sign,
            "--bind",
            "team/1234/train/first",
        ];
        let report = node.agent.run(&words)?.is(0)?.json()?;
        let id = id(&report)?;
        let tree = pulled(&node.agent, lab, &id)?;
        let folder = |name: &str| tree.join("containers").join(name);
        for name in NAMES {
            let log = fs::read_to_string(folder(name).join("container.log"))?;
            ensure!(
                log.contains(said),
                "{name}'s log is not kept: {log:?}, and was {:?}",
                fs::read_to_string(self.pod.log(name))
            );
        }
        let come = |name: &str| iterations(&folder(name).join("rootfs-diff"));
        Ok((id, [come(NAMES[0])?, come(NAMES[1])?]))
    }

    /// All is as it was.
    fn is_as(&self, traces: &Held) -> Result<()> {
        for (resident, traces) in self.residents.iter().zip(traces) {
            resident.is_as(traces)?;
        }
        let below = self.pod.volume("shared").join("below/kept");
        let kept = fs::read_to_string(below)?;
        ensure!(kept == "of the volume\n", "the volume holds {kept:?}");
        Ok(())
    }
}

/// Set to run what was not seen green from its beginning to its end yet.
const UNFINISHED: &str = "ROCFERRY_UNFINISHED_CASES";

fn there_and_back(lab: &mut Lab) -> Result<()> {
    if std::env::var_os(UNFINISHED).is_none() {
        return Err(Skip("it was not seen green from its beginning to its end yet").into());
    }
    let keys = Keys::new(lab)?;
    lab.sim.load(MACHINE)?;
    let agent = Agent::new(lab)?;
    let (second, third) = (agent.elsewhere(lab)?, agent.elsewhere(lab)?);
    let node = Node::start(lab, agent)?;
    let (pair, traces) = Pair::new(lab, &node)?;
    let (id, come) = pair.stored(lab, &node, &keys, "on the first machine")?;
    drop(node);
    nobody_runs()?;

    lab.sim.load(&format!("{MACHINE} {OTHER}"))?;
    let node = Node::start(lab, second)?;
    let pair = restored(lab, &node, (&keys, &id), come, &traces, [2, 3])?;
    let (id, come) = pair.stored(lab, &node, &keys, "on the second machine")?;
    drop(node);
    nobody_runs()?;

    lab.sim.load(MACHINE)?;
    let node = Node::start(lab, third)?;
    let pair = restored(lab, &node, (&keys, &id), come, &traces, [3, 1])?;
    lab.no_stray_access()?;
    let Pair {
        mut pod,
        ids,
        residents,
    } = pair;
    for id in &ids {
        is_as_any_other(node.client()?, id)?;
    }
    for resident in &residents {
        ensure!(!resident.workload.is_alive(), "it has not ended");
    }
    pod.delete()
}

/// Restores the pod on these GPUs of a machine: held, with nothing run, whoever asks a second time; then let go.
fn restored(
    lab: &mut Lab,
    node: &Node,
    (keys, id): (&Keys, &str),
    come: [u64; 2],
    traces: &Held,
    gpus: [usize; 2],
) -> Result<Pair> {
    let (agent, client) = (&node.agent, node.client()?);
    let mut pod = node.wrapped(lab, "train", &[MARK])?;
    let uid = pod.uid.clone();
    let words = [
        "prepare",
        "--pod-uid",
        &uid,
        "--for",
        "team/train",
        "--trust",
        &keys.trust,
        "--held",
        id,
    ];
    agent.run(&words)?.is(0)?;
    let given = [
        Device::of_gpus(&lab.sim, &[gpus[0]])?,
        Device::of_gpus(&lab.sim, &[gpus[1]])?,
    ];
    let first = one(&mut pod, NAMES[0], &given[0])?;
    has_not_run(&client.root(&first), come[0])?;
    // As a kubelet does that has lost its answer.
    let again = one(&mut pod, NAMES[0], &given[0]);
    let refusal = format!("{:#}", again.err().context("it was made a second time")?);
    ensure!(refusal.contains("is held already"), "{refusal}");
    let ids = [first, one(&mut pod, NAMES[1], &given[1])?];
    while_it_could_run();
    for (id, come) in ids.iter().zip(come) {
        has_not_run(&client.root(id), come)?;
        // To a kubelet it runs.
        let state = client.state(id)?;
        ensure!(state == "CONTAINER_RUNNING", "it is {state}");
    }
    agent
        .run(&["thaw", "--pod-uid", &uid])?
        .is(1)?
        .says(&["not committed yet"])?;
    agent
        .run(&decide(&uid, &["commit", "--source", "gone"]))?
        .is(0)?;
    agent.run(&["thaw", "--pod-uid", &uid])?.is(0)?;
    let pair = Pair::of(node, pod, ids)?;
    pair.is_as(traces)?;
    for (index, resident) in pair.residents.iter().enumerate() {
        let name = NAMES[index];
        say(resident.workload.pid, "restored")?;
        logged(&pair.pod.log(name), "restored")?;
        let words = ["exec", "--sync", &pair.ids[index], "/bin/busybox", "true"];
        client.crictl(&words)?.ok()?;
    }
    agent.is_idle()?;
    Ok(pair)
}

/// The program whose root file system this is is where it was when it was stored.
fn has_not_run(root: &Path, come: u64) -> Result<()> {
    let now = iterations(root)?;
    ensure!(now == come, "it ran: {come} iterations, then {now}");
    Ok(())
}
