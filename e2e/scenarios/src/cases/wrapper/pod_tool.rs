//! Pods that the agent prepares and the wrapper restores.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::case::{BIN, Lab};
use crate::cases::agent::tool::{Agent, until};
use crate::containers::{
    Contents, Device, Pod, PodOptions, Resident, Traces, Volume, WORKLOAD, run,
};

/// Key pair of RFC 8410, 10.3 and 10.1.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

/// Files with the keys of whoever signs.
pub(crate) struct Keys {
    pub(crate) sign: String,
    pub(crate) trust: String,
}

impl Keys {
    pub(crate) fn new(lab: &mut Lab) -> Result<Self> {
        let folder = lab.folder("keys")?;
        let write = |name: &str, text: &str| -> Result<String> {
            let file = folder.join(name);
            fs::write(&file, text)?;
            Ok(file.display().to_string())
        };
        Ok(Self {
            sign: write("sign.pem", PRIVATE)?,
            trust: write("trust.pem", PUBLIC)?,
        })
    }
}

/// The container with a GPU.
pub(crate) const MAIN: &[&str] = &[
    WORKLOAD,
    "--state",
    "/work/state",
    "--bo",
    "vram:192K:2",
    "--bo",
    "gtt:64K",
];

/// The other one: it counts in the volume that both have, and says so to the outside, line by line. A read that ends after a
/// moment is its clock: it starts no processes.
const SIDE: &[&str] = &[
    "/bin/sh",
    "-c",
    "/bin/busybox mkfifo /work/clock; exec 3<>/work/clock; i=0; while :; do i=$((i+1)); echo $i > /in/count; \
     echo $i >> /outside/heard; read -t 1 -u 3 x; done",
];

/// A two-container pod of a machine, in whose place it can be made again.
pub(super) struct Machine {
    pub(super) agent: Agent,
    folder: PathBuf,
    run_folder: PathBuf,
    gpu: Vec<Device>,
}

impl Machine {
    /// The machine whose agent this is, with its folder. Its pods get that GPU.
    pub(super) fn new(lab: &mut Lab, agent: Agent, folder: PathBuf, gpu: usize) -> Result<Self> {
        let run_folder = lab.folder("run")?;
        Ok(Self {
            agent: agent
                .with_state(&folder)
                .with_variable("ROCFERRY_RUN_FOLDER", &run_folder.display().to_string()),
            folder,
            run_folder,
            gpu: Device::of_gpus(&lab.sim, &[gpu])?,
        })
    }

    /// A pod that is marked for a restore, under the wrapper.
    pub(super) fn pod(&self, lab: &mut Lab) -> Result<Pod> {
        let path = |path: &Path| path.display().to_string();
        let options = PodOptions {
            runtime: format!("{BIN}/rocferry-runc"),
            environment: vec![
                ("ROCFERRY_FOLDER".to_owned(), path(&self.folder)),
                ("ROCFERRY_RUN_FOLDER".to_owned(), path(&self.run_folder)),
                ("ROCFERRY_RUNTIME".to_owned(), "runc".to_owned()),
            ],
            annotations: vec![("rocferry.dev/restore".to_owned(), "request".to_owned())],
            ..PodOptions::default()
        };
        Pod::start(lab, "train", &options)
    }

    /// The GPU of its pods.
    pub(super) fn gpu(&self) -> &[Device] {
        &self.gpu
    }

    /// State of a ticket; empty if there is none.
    pub(super) fn ticket(&self, pod: &Pod, container: &str) -> Result<String> {
        let shown = self
            .agent
            .run(&["status", "--tickets", "--json"])?
            .is(0)?
            .json()?;
        let shown = shown.as_array().context("no list")?.clone();
        let found = shown
            .iter()
            .find(|one| one["pod_uid"] == pod.uid.as_str() && one["container"] == container);
        let state = found.and_then(|one| one["state"].as_str());
        Ok(state.unwrap_or_default().to_owned())
    }
}

/// What the pod consists of.
pub(super) struct Spec<'a> {
    gpu: Vec<Device>,
    outside: &'a Path,
}

impl<'a> Spec<'a> {
    /// With the machine's GPU; `outside` is where it is heard.
    pub(super) fn of(machine: &Machine, outside: &'a Path) -> Result<Self> {
        let gpu = machine.gpu.clone();
        Ok(Self { gpu, outside })
    }

    fn new(lab: &Lab, gpu: usize, outside: &'a Path) -> Result<Self> {
        Ok(Self {
            gpu: Device::of_gpus(&lab.sim, &[gpu])?,
            outside,
        })
    }

    /// Makes the container with the GPU. Its pid.
    pub(super) fn main(&self, pod: &mut Pod) -> Result<i32> {
        pod.run(&Contents {
            devices: &self.gpu,
            volumes: &[Volume::all("scratch", "/scratch")],
            ..Contents::new("main", MAIN)
        })
    }

    /// Makes the one that counts. Its pid.
    pub(super) fn side(&self, pod: &mut Pod) -> Result<i32> {
        let below = Volume {
            name: "scratch",
            sub_path: "below",
            destination: "/in",
        };
        pod.run(&Contents {
            volumes: &[below],
            host_paths: &[(self.outside, "/outside")],
            ..Contents::new("side", SIDE)
        })
    }
}

/// A pod's checkpoint, and what is known about the pod. It has ended.
pub(super) struct Dumped {
    /// The checkpoint in the store.
    pub(super) id: String,
    /// File with the key that signed it.
    pub(super) trust: String,
    traces: Traces,
    iterations: u64,
    count: u64,
    heard: usize,
    outside: PathBuf,
}

impl Dumped {
    /// Makes a pod, lets it work, dumps its containers with runc, and stores all of it as the agent does.
    pub(super) fn new(lab: &mut Lab, agent: &Agent) -> Result<Self> {
        let outside = lab.folder("outside")?;
        let mut pod = Pod::start(lab, "train", &PodOptions::default())?;
        let spec = Spec::new(lab, 0, &outside)?;
        let main = Resident::in_root(spec.main(&mut pod)?, &pod.root("main"))?;
        spec.side(&mut pod)?;
        let traces = main.leave_traces()?;
        for name in ["kept", "once"] {
            fs::write(pod.volume("scratch").join(name), "of the volume\n")?;
        }
        let count = pod.volume("scratch").join("below/count");
        until("it counts", || Ok(number(&count) > 1))?;
        let tree = lab.folder("tree")?;
        for name in ["main", "side"] {
            let images = tree.join("containers").join(name).join("checkpoint");
            let work = lab.folder("work")?;
            fs::create_dir_all(&images)?;
            let id = pod.id(name);
            let words = [
                "checkpoint",
                "--image-path",
                text(&images)?,
                "--work-path",
                text(&work)?,
                &id,
            ];
            pod.runtime(&words)?
                .ok()
                .with_context(|| crate::containers::plugin_lines(&work.join("dump.log")))?;
        }
        let iterations = iterations(&pod)?;
        for name in ["main", "side"] {
            files_of(lab, &pod, name, &tree)?;
        }
        fs::create_dir(tree.join("volumes"))?;
        tar(&pod.volume("scratch"), &tree.join("volumes/scratch.tar"))?;
        tar(&pod.shared_memory(), &tree.join("shm.tar"))?;
        fs::write(tree.join("pod.json"), record(&pod).to_string())?;
        let keys = Keys::new(lab)?;
        let words = [
            "image",
            "push",
            "--sign",
            &keys.sign,
            "--bind",
            "team/1234/train/main",
            text(&tree)?,
        ];
        let id = agent.run(&words)?.is(0)?.stdout.trim().to_owned();
        Ok(Self {
            id,
            trust: keys.trust,
            traces,
            iterations,
            count: number(&count),
            heard: heard(&outside),
            outside,
        })
    }

    /// Where the pod is heard.
    pub(super) fn outside(&self) -> &Path {
        &self.outside
    }

    /// The words that prepare it for a pod.
    pub(super) fn prepare<'a>(&'a self, uid: &'a str) -> Vec<&'a str> {
        vec![
            "prepare",
            "--pod-uid",
            uid,
            "--for",
            "team/train",
            "--trust",
            &self.trust,
            "--held",
            "--on-container-restart",
            "refuse",
            &self.id,
        ]
    }

    /// A copy has gone on and has ended: what it has said is not the next one's.
    pub(super) fn is_heard_from_here(&mut self) {
        self.heard = heard(&self.outside);
    }

    /// Nothing of it has run since: neither says its own counter, nor whoever listens outside.
    pub(super) fn has_not_run(&self, pod: &Pod) -> Result<()> {
        if pod.root("main").join("work/state").exists() {
            let now = iterations(pod)?;
            ensure!(
                now == self.iterations,
                "it ran: {} iterations, then {now}",
                self.iterations
            );
        }
        let count = pod.volume("scratch").join("below/count");
        if count.exists() {
            let now = number(&count);
            ensure!(now == self.count, "it counted from {} to {now}", self.count);
        }
        let now = heard(&self.outside);
        ensure!(
            now == self.heard,
            "{} lines were heard, then {now}",
            self.heard
        );
        Ok(())
    }

    /// Both go on, with all that they had. The one with the GPU.
    pub(super) fn goes_on(&self, pod: &Pod, main: i32) -> Result<Resident> {
        let resident = Resident::in_root(main, &pod.root("main"))?;
        resident.is_as(&self.traces)?;
        let kept = fs::read_to_string(pod.volume("scratch").join("kept"))?;
        ensure!(kept == "of the volume\n", "the volume holds {kept:?}");
        let count = pod.volume("scratch").join("below/count");
        until("it counts on", || Ok(number(&count) > self.count))?;
        until("it is heard", || Ok(heard(&self.outside) > self.heard))?;
        let next = fs::read_to_string(self.outside.join("heard"))?;
        let next = next
            .lines()
            .nth(self.heard)
            .and_then(|line| line.parse().ok());
        // Not from the beginning, and no number left out.
        ensure!(
            next.is_some_and(|next: u64| next == self.count || next == self.count + 1),
            "after {} comes {next:?}",
            self.count
        );
        Ok(resident)
    }
}

fn iterations(pod: &Pod) -> Result<u64> {
    super::tool::iterations(&pod.root("main"))
}

fn number(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn heard(outside: &Path) -> usize {
    let text = fs::read_to_string(outside.join("heard")).unwrap_or_default();
    text.lines().count()
}

/// What the agent saves of a container besides CRIU's images.
fn files_of(lab: &mut Lab, pod: &Pod, name: &str, tree: &Path) -> Result<()> {
    let folder = tree.join("containers").join(name);
    fs::copy(
        pod.bundle(name).join("config.json"),
        folder.join("spec.dump"),
    )?;
    fs::write(folder.join("config.dump"), "{}")?;
    let changes = lab.folder("changes")?;
    run(&[
        "cp",
        "-a",
        &format!("{}/.", text(&pod.changes(name))?),
        text(&changes)?,
    ])?
    .ok()?;
    whiteouts(&changes)?;
    tar(&changes, &folder.join("rootfs-diff.tar"))
}

/// The overlay's signs for deletions become those of layers.
fn whiteouts(folder: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            whiteouts(&entry.path())?;
        } else if kind.is_char_device() {
            fs::remove_file(entry.path())?;
            let name = entry.file_name();
            let name = name.to_str().context("name")?;
            fs::write(folder.join(format!(".wh.{name}")), "")?;
        }
    }
    Ok(())
}

/// A folder's content, by its names.
fn tar(folder: &Path, file: &Path) -> Result<()> {
    let mut words = vec!["busybox", "tar", "-C", text(folder)?, "-cf", text(file)?];
    let names: Vec<String> = fs::read_dir(folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    if names.is_empty() {
        // An end and nothing before it.
        return Ok(fs::write(file, [0; 1024])?);
    }
    words.extend(names.iter().map(String::as_str));
    run(&words)?.ok().map(drop)
}

fn record(pod: &Pod) -> Value {
    json!({
        "version": 1, "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
        "containers": [{ "name": "main", "id": pod.id("main") }, { "name": "side", "id": pod.id("side") }],
        "volumes": [{ "name": "scratch", "kind": "Disk", "mounts": [
            { "container": "main", "destination": "/scratch" },
            { "container": "side", "destination": "/in", "subPath": "below" },
        ] }],
        "sharedMemory": true,
    })
}

/// The words of a decision.
pub(crate) fn decide<'a>(uid: &'a str, what: &[&'a str]) -> Vec<&'a str> {
    [&["decide", "--pod-uid", uid], what].concat()
}

pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str().context("path")
}

/// Some time in which whoever can run does: the counter counts each second.
pub(crate) fn while_it_could_run() {
    std::thread::sleep(std::time::Duration::from_secs(3));
}
