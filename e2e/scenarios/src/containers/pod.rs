//! Pods as containerd makes them for a kubelet, out of real runc containers: a sandbox that holds the network, IPC and UTS
//! namespaces, containers in them, all below the pod's cgroup.
//!
//! ```ignore
//! let mut pod = Pod::start(lab, "train", &Options::default())?;      // the sandbox runs
//! let main = Contents { devices: &Device::of_gpus(&lab.sim, &[0])?, volumes: &[Volume::all("scratch", "/scratch")],
//!                       ..Contents::new("main", COMMAND) };
//! let pid = pod.run(&main)?;                                          // `create`, `start`
//! let resident = Resident::in_root(pid, &pod.root("main")?)?;
//! ```
//!
//! What a node has of it, and where:
//!
//! | | |
//! |---|---|
//! | state of the runtime | `/run/containerd/runc/k8s.io` ([`Pod::STATE`]), where the agent looks by itself |
//! | cgroup | `/kubepods/burstable/podUID`, a container's below it ([`Pod::cgroup`]); where systemd is process 1, slices of that, and scopes in them |
//! | `/dev/shm` of all | a tmpfs of the sandbox, bound into each ([`Pod::shared_memory`]) |
//! | emptyDir volumes | `/var/lib/kubelet/pods/UID/volumes/kubernetes.io~empty-dir/NAME` ([`Pod::volume`]) |
//! | logs | `/var/log/pods/NAMESPACE_NAME_UID/CONTAINER/0.log` ([`Pod::log`]) |
//! | root file systems | overlays over one image ([`Pod::root`], [`Pod::changes`]) |
//! | network | namespace `rocferry-pod-N`, the node at 10.97.N.1, the pod at 10.97.N.2 ([`Pod::address`]) |
//!
//! A pod to be restored into is another one of the same name: `Options::runtime` is the wrapper then, and `run` of the
//! same `Contents` asks it for `create`. Each has a UID of its own. Everything goes when the pod is dropped.

mod config;
mod network;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::devices::Device;
use super::root::make_root;
use super::{Ran, has_systemd, need, run};
use crate::case::Lab;
use config::Kind;
use network::Network;

/// How the pod is made.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The OCI runtime: runc, or the wrapper.
    pub(crate) runtime: String,
    /// What its environment has besides.
    pub(crate) environment: Vec<(String, String)>,
    /// Annotations of the pod that containerd passes on to its containers.
    pub(crate) annotations: Vec<(String, String)>,
    /// The pod is in the node's own network.
    pub(crate) host_network: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            runtime: "runc".to_owned(),
            environment: Vec::new(),
            annotations: Vec::new(),
            host_network: false,
        }
    }
}

/// A container of a pod's specification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents<'a> {
    /// Its name in the pod.
    pub(crate) name: &'a str,
    /// Its first process.
    pub(crate) command: &'a [&'a str],
    /// Devices that it is given.
    pub(crate) devices: &'a [Device],
    /// emptyDir volumes.
    pub(crate) volumes: &'a [Volume<'a>],
    /// Folders of the node (`hostPath`), and where it sees them.
    pub(crate) host_paths: &'a [(&'a Path, &'a str)],
    /// Limit of its memory, in bytes.
    pub(crate) memory: Option<u64>,
}

impl<'a> Contents<'a> {
    /// Without devices and volumes.
    pub(crate) const fn new(name: &'a str, command: &'a [&'a str]) -> Self {
        Self {
            name,
            command,
            devices: &[],
            volumes: &[],
            host_paths: &[],
            memory: None,
        }
    }
}

/// An emptyDir volume in a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume<'a> {
    /// Its name in the pod.
    pub(crate) name: &'a str,
    /// What of it is mounted; empty: all.
    pub(crate) sub_path: &'a str,
    /// Where.
    pub(crate) destination: &'a str,
}

impl<'a> Volume<'a> {
    /// All of a volume.
    pub(crate) const fn all(name: &'a str, destination: &'a str) -> Self {
        Self {
            name,
            sub_path: "",
            destination,
        }
    }
}

/// A pod.
pub(crate) struct Pod {
    /// Its UID.
    pub(crate) uid: String,
    /// Its namespace in Kubernetes.
    pub(crate) namespace: &'static str,
    /// Its name.
    pub(crate) name: &'static str,
    options: Options,
    number: u32,
    scratch: PathBuf,
    network: Option<Network>,
    sandbox: i32,
    /// Names of containers, and how many there were of each.
    containers: Vec<(String, u32)>,
}

/// Beginning of the names of containerd's scopes.
const SCOPE: &str = "cri-containerd";

static NUMBER: AtomicU32 = AtomicU32::new(1);

impl Pod {
    /// Where runc keeps its state for a kubelet's containerd.
    pub(crate) const STATE: &str = "/run/containerd/runc/k8s.io";

    /// Starts the sandbox.
    pub(crate) fn start(lab: &mut Lab, name: &'static str, options: &Options) -> Result<Self> {
        need("runc")?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut pod = Self {
            uid: format!("5d1c3a40-0000-4000-8000-{number:012x}"),
            namespace: "team",
            name,
            options: options.clone(),
            number,
            scratch: lab.folder("pod")?,
            network: None,
            sandbox: 0,
            containers: Vec::new(),
        };
        if !options.host_network {
            pod.network = Some(Network::new(number)?);
        }
        make_root(&pod.scratch.join("image"))?;
        for file in ["hosts", "resolv.conf", "hostname"] {
            fs::write(pod.scratch.join(file), format!("{file} of {name}\n"))?;
        }
        let shm = pod.shared_memory();
        fs::create_dir_all(&shm)?;
        let at = text(&shm)?;
        run(&["mount", "-t", "tmpfs", "-o", "mode=1777", "shm", at])?.ok()?;
        if has_systemd() {
            // As the kubelet does, before there is any container.
            run(&["systemctl", "start", &pod.slice()])?.ok()?;
        }
        let pause = "/bin/busybox mkfifo /tmp/f && read x < /tmp/f";
        let command = ["/bin/sh", "-c", pause];
        let sandbox = Contents::new("sandbox", &command);
        pod.sandbox = pod.run_as(&sandbox, Kind::Sandbox)?;
        Ok(pod)
    }

    /// Starts a container. A second one of a name takes the first one's place, as after a restart: that one must have
    /// ended. Its pid on the node.
    pub(crate) fn run(&mut self, contents: &Contents<'_>) -> Result<i32> {
        self.run_as(contents, Kind::Container)
    }

    /// A container's id in the runtime: the last one of that name. `sandbox` is one, too.
    pub(crate) fn id(&self, container: &str) -> String {
        let attempts = self.containers.iter();
        let attempt = attempts
            .filter(|(name, _)| name == container)
            .map(|(_, number)| *number)
            .max();
        format!("pod{}-{container}-{}", self.number, attempt.unwrap_or(0))
    }

    /// Pid of the sandbox's process.
    pub(crate) const fn sandbox(&self) -> i32 {
        self.sandbox
    }

    /// The folder of the pod's cgroup.
    pub(crate) fn cgroup(&self) -> PathBuf {
        Path::new("/sys/fs/cgroup").join(self.cgroup_path())
    }

    /// The kubelet's names for both drivers. A slice's name has those of the slices above it, and no dash of its own.
    fn cgroup_path(&self) -> String {
        match has_systemd() {
            true => format!("kubepods.slice/kubepods-burstable.slice/{}", self.slice()),
            false => format!("kubepods/burstable/pod{}", self.uid),
        }
    }

    /// The pod's slice.
    fn slice(&self) -> String {
        let uid = self.uid.replace('-', "_");
        format!("kubepods-burstable-pod{uid}.slice")
    }

    /// `cgroupsPath` of a container, as containerd writes it for each driver.
    fn cgroups_path(&self, container: &str) -> String {
        let id = self.id(container);
        match has_systemd() {
            true => format!("{}:{SCOPE}:{id}", self.slice()),
            false => format!("/{}/{id}", self.cgroup_path()),
        }
    }

    /// The folder of a container's cgroup.
    pub(crate) fn container_cgroup(&self, container: &str) -> PathBuf {
        let id = self.id(container);
        self.cgroup().join(match has_systemd() {
            true => format!("{SCOPE}-{id}.scope"),
            false => id,
        })
    }

    /// Global flags of the runtime, as containerd's shim gives them.
    fn flags(&self) -> Result<Vec<String>> {
        let log = self.runtime_log();
        let words = [
            "--root",
            Self::STATE,
            "--log",
            text(&log)?,
            "--log-format",
            "json",
        ];
        let driver = has_systemd().then_some("--systemd-cgroup");
        Ok(words.into_iter().chain(driver).map(str::to_owned).collect())
    }

    /// Have all tasks of the pod stopped?
    pub(crate) fn is_frozen(&self) -> Result<bool> {
        event(&self.cgroup(), "frozen 1")
    }

    /// Have all tasks of a container stopped?
    pub(crate) fn container_is_frozen(&self, container: &str) -> Result<bool> {
        event(&self.container_cgroup(container), "frozen 1")
    }

    /// Is nobody left in the pod?
    pub(crate) fn is_empty(&self) -> Result<bool> {
        match self.cgroup().exists() {
            true => event(&self.cgroup(), "populated 0"),
            false => Ok(true),
        }
    }

    /// The `/dev/shm` of all containers, on the node.
    pub(crate) fn shared_memory(&self) -> PathBuf {
        self.scratch.join("shm")
    }

    /// An emptyDir volume, on the node.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.kubelet()
            .join("volumes/kubernetes.io~empty-dir")
            .join(name)
    }

    fn kubelet(&self) -> PathBuf {
        Path::new("/var/lib/kubelet/pods").join(&self.uid)
    }

    fn logs(&self) -> PathBuf {
        let name = format!("{}_{}_{}", self.namespace, self.name, self.uid);
        Path::new("/var/log/pods").join(name)
    }

    /// A container's log.
    pub(crate) fn log(&self, container: &str) -> PathBuf {
        self.logs().join(container).join("0.log")
    }

    /// Root file system of a container, on the node.
    pub(crate) fn root(&self, container: &str) -> PathBuf {
        self.bundle(container).join("rootfs")
    }

    /// What a container has changed in its root file system.
    pub(crate) fn changes(&self, container: &str) -> PathBuf {
        self.bundle(container).join("upper")
    }

    /// A container's bundle.
    pub(crate) fn bundle(&self, container: &str) -> PathBuf {
        self.scratch.join(self.id(container))
    }

    /// The pod's address; the node's is that of the same network with a 1 at its end.
    pub(crate) fn address(&self) -> Option<std::net::Ipv4Addr> {
        self.network.as_ref().map(Network::pod)
    }

    /// A command of the runtime, with the global flags that containerd gives.
    pub(crate) fn runtime(&self, words: &[&str]) -> Result<Ran> {
        let flags = self.flags()?;
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let variables: Vec<String> = self
            .options
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
        run(&[
            &["env"],
            &variables[..],
            &[&self.options.runtime],
            &flags[..],
            words,
        ]
        .concat())
    }

    /// Ends and removes a container, as engines do.
    pub(crate) fn remove(&self, container: &str) -> Result<()> {
        self.runtime(&["delete", "--force", &self.id(container)])?
            .ok()?;
        let _ = run(&["umount", text(&self.root(container))?]);
        Ok(())
    }

    /// The reason of the runtime's last failure.
    pub(crate) fn reason(&self) -> String {
        let log = fs::read_to_string(self.runtime_log()).unwrap_or_default();
        let lines = log
            .lines()
            .rev()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut errors = lines.filter(|line| line["level"] == "error");
        let last = errors.next();
        last.and_then(|line| line["msg"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    fn runtime_log(&self) -> PathBuf {
        self.scratch.join("runtime.json")
    }

    fn run_as(&mut self, contents: &Contents<'_>, kind: Kind) -> Result<i32> {
        let attempt = self
            .containers
            .iter()
            .filter(|(name, _)| name == contents.name)
            .count();
        self.containers
            .push((contents.name.to_owned(), u32::try_from(attempt)?));
        self.make(contents, kind)?;
        let (id, bundle) = (self.id(contents.name), self.bundle(contents.name));
        let pid_file = bundle.join("pid");
        let create = [
            "create",
            "--bundle",
            text(&bundle)?,
            "--pid-file",
            text(&pid_file)?,
            &id,
        ];
        for words in [&create[..], &["start", &id]] {
            self.detached(words)?;
        }
        let pid = fs::read_to_string(&pid_file)?;
        pid.trim()
            .parse()
            .with_context(|| format!("pid file of {id}"))
    }

    /// Bundle, volumes and log of a container.
    fn make(&self, contents: &Contents<'_>, kind: Kind) -> Result<()> {
        let bundle = self.bundle(contents.name);
        for dir in ["rootfs", "upper", "work"] {
            fs::create_dir_all(bundle.join(dir))?;
        }
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            self.scratch.join("image").display(),
            bundle.join("upper").display(),
            bundle.join("work").display()
        );
        let root = bundle.join("rootfs");
        run(&[
            "mount",
            "-t",
            "overlay",
            "overlay",
            "-o",
            &options,
            text(&root)?,
        ])?
        .ok()?;
        for volume in contents.volumes {
            fs::create_dir_all(self.volume(volume.name).join(volume.sub_path))?;
        }
        if matches!(kind, Kind::Container) {
            let log = self.log(contents.name);
            fs::create_dir_all(log.parent().context("path")?)?;
            if !log.exists() {
                let line = format!(
                    "2026-12-01T00:00:00.000000000Z stdout F {} of {}\n",
                    contents.name, self.name
                );
                fs::write(log, line)?;
            }
        }
        let spec = config::spec(self, contents, kind)?;
        Ok(fs::write(bundle.join("config.json"), spec.to_string())?)
    }

    /// A command whose descriptors the container inherits: none of a file of ours.
    fn detached(&self, words: &[&str]) -> Result<()> {
        let _ = fs::remove_file(self.runtime_log());
        let status = Command::new(&self.options.runtime)
            .args(self.flags()?)
            .args(words)
            .envs(self.options.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .with_context(|| format!("cannot run {}", self.options.runtime))?;
        if status.success() {
            return Ok(());
        }
        bail!(
            "{} {}: {status}: {}",
            self.options.runtime,
            words.join(" "),
            self.reason()
        )
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let cgroup = self.cgroup();
        let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        let _ = fs::write(cgroup.join("cgroup.freeze"), "0");
        for (name, attempt) in self.containers.clone() {
            let id = format!("pod{}-{name}-{attempt}", self.number);
            let _ = self.runtime(&["delete", "--force", &id]);
            if let Ok(root) = text(&self.scratch.join(&id).join("rootfs")) {
                let _ = run(&["umount", root]);
            }
        }
        if let Ok(shm) = text(&self.shared_memory()) {
            let _ = run(&["umount", shm]);
        }
        if has_systemd() {
            let _ = run(&["systemctl", "stop", &self.slice()]);
        }
        let begun = Instant::now();
        while cgroup.exists()
            && fs::remove_dir(&cgroup).is_err()
            && begun.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        for dir in [self.kubelet(), self.logs()] {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Is this line among the events of a cgroup?
fn event(cgroup: &Path, wanted: &str) -> Result<bool> {
    let events = fs::read_to_string(cgroup.join("cgroup.events"))?;
    ensure!(events.contains("frozen"), "no events: {events}");
    Ok(events.lines().any(|line| line == wanted))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("path")
}
