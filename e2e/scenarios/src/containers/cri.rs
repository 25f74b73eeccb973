//! containerd as a node of Kubernetes has it, and `crictl`, which says to it what a kubelet says.
//!
//! ```ignore
//! let cri = Cri::start(lab, &[])?;                                // settings written by `CriConfig` before
//! let mut pod = CriPod::start(&cri, "train", &CriOptions::default())?;
//! let id = pod.run(&Contents { devices: &gpus, ..Contents::new("main", COMMAND) })?;
//! let pid = cri.client().pid(&id)?;
//! ```
//! All is where the agent looks for it on a real node: socket, settings, runc's state, cgroups, volumes, logs.

mod config;
mod network;
mod pod;
mod settings;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub(crate) use pod::{CriOptions, CriPod};
pub(crate) use settings::CriSettings;

use super::{Podman, Ran, Runtime, need, run};
use crate::case::{BIN, Lab, Skip};
use crate::proc;
use network::Bridge;

/// How long it may take to answer.
const START: Duration = Duration::from_secs(120);
const ADDRESS: &str = "/run/containerd/containerd.sock";

/// What crictl is told, so that a slow machine is no failure.
const PATIENCE: &str = "300s";

/// Speaks to the daemon.
#[derive(Clone, Copy)]
pub(crate) struct Client;

/// A running daemon. It ends when this is dropped, with its shims and containers.
pub(crate) struct Cri {
    daemon: Child,
    log: PathBuf,
    _bridge: Bridge,
}

impl Cri {
    /// The image of all containers, and of the sandbox.
    pub(crate) const IMAGE: &str = Podman::IMAGE;
    /// Its root, on the tmpfs of containerd.
    pub(super) const ROOT: &str = "/var/lib/containerd/cri";
    /// Its state.
    pub(super) const STATE: &str = "/run/containerd";

    /// Starts it with the settings that are there, and waits until its part for Kubernetes is ready. `environment` is
    /// that of all runtimes below it.
    pub(crate) fn start(lab: &mut Lab, environment: &[(String, String)]) -> Result<Self> {
        need("containerd")?;
        if !Path::new(BIN).join("crictl").exists() {
            return Err(Skip("no crictl on this machine").into());
        }
        let scratch = lab.folder("containerd")?;
        let log = scratch.join("containerd.log");
        let daemon = Command::new("containerd")
            .args(["--config", CriSettings::FILE])
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("cannot start containerd")?;
        let mut started = Self {
            daemon,
            log,
            _bridge: Bridge,
        };
        let begun = Instant::now();
        while !started.is_ready() {
            let ended = started.daemon.try_wait()?;
            ensure!(
                ended.is_none() && begun.elapsed() < START,
                "containerd is not ready ({ended:?}): {}",
                started.says()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        let archive = image(&lab.folder("image")?)?;
        let archive = archive.to_str().context("path")?;
        started
            .client()
            .ctr(&["image", "import", "--local", "--digests", archive])?
            .ok()?;
        Ok(started)
    }

    /// Who speaks to it.
    #[expect(
        clippy::unused_self,
        reason = "there is one only while there is a daemon"
    )]
    pub(crate) const fn client(&self) -> Client {
        Client
    }

    /// The end of its log.
    pub(crate) fn says(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn is_ready(&self) -> bool {
        let info = self.client().json(&["info"]);
        info.is_ok_and(|info| {
            let conditions = info["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().all(|one| one["status"] == true))
        })
    }
}

/// An archive with the image: a folder imported by Podman, which no registry is needed for.
fn image(scratch: &Path) -> Result<PathBuf> {
    let podman = Podman::new(Runtime::Crun, scratch)?;
    let root = scratch.join("root.tar");
    let path = |path: &Path| Ok::<_, anyhow::Error>(path.to_str().context("path")?.to_owned());
    // What a sandbox runs.
    let command = "CMD [\"/bin/busybox\", \"tail\", \"-f\", \"/dev/null\"]";
    podman
        .run(&[
            "import",
            "--quiet",
            "--change",
            command,
            &path(&root)?,
            Podman::IMAGE,
        ])?
        .ok()?;
    let archive = scratch.join("image.tar");
    podman
        .run(&[
            "save",
            "--quiet",
            "--output",
            &path(&archive)?,
            Podman::IMAGE,
        ])?
        .ok()?;
    Ok(archive)
}

impl Client {
    /// `crictl` with these words.
    #[expect(
        clippy::unused_self,
        reason = "there is one only while there is a daemon"
    )]
    pub(crate) fn crictl(self, words: &[&str]) -> Result<Ran> {
        let program = format!("{BIN}/crictl");
        let endpoint = format!("unix://{ADDRESS}");
        let own = [
            &program,
            "--runtime-endpoint",
            &endpoint,
            "--image-endpoint",
            &endpoint,
            "--timeout",
            PATIENCE,
        ];
        run(&[&own[..], words].concat())
    }

    /// The same, and its answer.
    pub(crate) fn json(self, words: &[&str]) -> Result<Value> {
        let text = self.crictl(words)?.ok()?;
        serde_json::from_str(&text).with_context(|| format!("{words:?} said {text}"))
    }

    /// `ctr` with these words, for Kubernetes' containers.
    #[expect(
        clippy::unused_self,
        reason = "there is one only while there is a daemon"
    )]
    pub(crate) fn ctr(self, words: &[&str]) -> Result<Ran> {
        run(&[
            &["ctr", "--address", ADDRESS, "--namespace", "k8s.io"],
            words,
        ]
        .concat())
    }

    /// A container's state: `CONTAINER_RUNNING`.
    pub(crate) fn state(self, id: &str) -> Result<String> {
        let shown = self.json(&["inspect", id])?;
        let state = shown["status"]["state"].as_str().context("no state")?;
        Ok(state.to_owned())
    }

    /// Pid of its first process.
    pub(crate) fn pid(self, id: &str) -> Result<i32> {
        let shown = self.json(&["inspect", id])?;
        let pid = shown["info"]["pid"].as_i64().unwrap_or_default();
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
        pid.with_context(|| format!("no process: {shown}"))
    }

    /// Its root file system while its task is there.
    #[expect(
        clippy::unused_self,
        reason = "there is one only while there is a daemon"
    )]
    pub(crate) fn root(self, id: &str) -> PathBuf {
        Path::new(Cri::STATE)
            .join("io.containerd.runtime.v2.task/k8s.io")
            .join(id)
            .join("rootfs")
    }
}

impl Drop for Cri {
    fn drop(&mut self) {
        let client = self.client();
        let pods = client.crictl(&["pods", "--quiet"]).map(|pods| pods.stdout);
        for id in pods.unwrap_or_default().split_ascii_whitespace() {
            let _ = client.crictl(&["rmp", "--force", id]);
        }
        if let Some(pid) = i32::try_from(self.daemon.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
            let _ = self.daemon.wait();
            proc::wait_gone(pid.as_raw_nonzero().get(), Duration::from_secs(1));
        }
        for dir in [Self::ROOT, Self::STATE] {
            let _ = fs::remove_dir_all(dir);
        }
    }
}
