//! containerd and its own client, `ctr`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::devices::Device;
use super::{Ran, need, run};
use crate::proc;
use rustix::process::{Pid, Signal, kill_process};

/// How long it may take to answer.
const START: Duration = Duration::from_secs(60);

/// A running daemon with a root of its own. It ends when this is dropped, with its containers.
pub(crate) struct Containerd {
    daemon: Child,
    root: PathBuf,
    socket: PathBuf,
}

impl Containerd {
    /// Starts it, and waits until it answers. `scratch` holds its log and its settings.
    pub(crate) fn start(scratch: &Path) -> Result<Self> {
        need("containerd")?;
        let root = PathBuf::from("/var/lib/containerd/case");
        let state = PathBuf::from("/run/rocferry/containerd");
        let socket = state.join("containerd.sock");
        fs::create_dir_all(&state)?;
        // The part for Kubernetes takes seconds to start and is not used.
        let config = scratch.join("containerd.toml");
        fs::write(
            &config,
            "version = 3\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.images\", \"io.containerd.cri.v1.runtime\"]\n",
        )?;
        let log = File::create(scratch.join("containerd.log"))?;
        let daemon = Command::new("containerd")
            .arg("--config")
            .arg(&config)
            .arg("--root")
            .arg(&root)
            .arg("--state")
            .arg(&state)
            .arg("--address")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start containerd")?;
        let mut started = Self {
            daemon,
            root,
            socket,
        };
        let begun = Instant::now();
        while !started.ctr(&["version"])?.good {
            let ended = started.daemon.try_wait()?;
            ensure!(
                ended.is_none() && begun.elapsed() < START,
                "containerd does not answer ({ended:?}): {}",
                fs::read_to_string(scratch.join("containerd.log")).unwrap_or_default()
            );
        }
        Ok(started)
    }

    /// `ctr` with these words.
    pub(crate) fn ctr(&self, words: &[&str]) -> Result<Ran> {
        let socket = self.socket.to_str().context("path")?;
        run(&[&["ctr", "--address", socket], words].concat())
    }

    /// Starts a container of an image with these devices.
    pub(crate) fn run(
        &self,
        image: &str,
        id: &str,
        devices: &[Device],
        command: &[&str],
    ) -> Result<()> {
        let mut words = vec!["run", "--detach", "--null-io"];
        for device in devices {
            words.extend(["--device", &device.path]);
        }
        words.extend([image, id]);
        words.extend(command);
        self.ctr(&words)?.ok().map(drop)
    }

    /// Pid of a container's task.
    pub(crate) fn pid(&self, id: &str) -> Result<i32> {
        let list = self.ctr(&["task", "ls"])?.ok()?;
        let mut tasks = list.lines().map(|line| line.split_ascii_whitespace());
        let found = tasks.find_map(|mut words| {
            let named = words.next() == Some(id);
            let pid = words.next()?.parse::<i32>().ok()?;
            (named && words.next() == Some("RUNNING")).then_some(pid)
        });
        found.with_context(|| format!("no running task {id}: {list}"))
    }

    /// Ends a container, if it still runs, and removes it.
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        // Fails where the dump has ended it.
        self.ctr(&["task", "rm", "--force", id])?;
        self.ctr(&["container", "rm", id])?.ok().map(drop)
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if let Ok(list) = self.ctr(&["container", "ls", "--quiet"]) {
            for id in list.stdout.split_ascii_whitespace() {
                let _ = self.remove(id);
            }
        }
        if let Some(pid) = i32::try_from(self.daemon.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
            let _ = self.daemon.wait();
            proc::wait_gone(pid.as_raw_nonzero().get(), Duration::from_secs(1));
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}
