//! runc alone: bundles in a folder, without an engine above it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::devices::Device;
use super::root::make_root;
use super::{need, run};

/// A bundle: `config.json` and `rootfs`.
pub(crate) struct Bundle {
    path: PathBuf,
}

impl Bundle {
    /// A new one for a container with this command and these devices.
    pub(crate) fn new(path: &Path, command: &[&str], devices: &[Device]) -> Result<Self> {
        let bundle = Self {
            path: path.to_owned(),
        };
        make_root(&path.join("rootfs"))?;
        bundle.write(command, devices)?;
        Ok(bundle)
    }

    /// One that is there.
    pub(crate) fn there(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its root file system.
    pub(crate) fn root(&self) -> PathBuf {
        self.path.join("rootfs")
    }

    /// Gives the container to come other devices.
    pub(crate) fn write(&self, command: &[&str], devices: &[Device]) -> Result<()> {
        let config = config(command, devices);
        fs::write(self.path.join("config.json"), config.to_string())?;
        Ok(())
    }
}

/// A container that runc runs. Deleted when dropped.
pub(crate) struct Runc {
    id: &'static str,
    log: PathBuf,
}

impl Runc {
    /// Starts the container of a bundle.
    pub(crate) fn start(id: &'static str, bundle: &Bundle) -> Result<Self> {
        need("runc")?;
        let log = bundle.path.join("runc.log");
        let container = Self { id, log };
        container.detached(&["run", "-d", "--bundle", text(&bundle.path)?, id])?;
        Ok(container)
    }

    /// Pid of its first process.
    pub(crate) fn pid(&self) -> Result<i32> {
        let state: Value = serde_json::from_str(&run(&["runc", "state", self.id])?.ok()?)?;
        let pid = state["pid"].as_i64().unwrap_or_default();
        i32::try_from(pid)
            .ok()
            .filter(|pid| *pid > 0)
            .with_context(|| format!("no process: {state}"))
    }

    /// State as `runc state` names it.
    pub(crate) fn status(&self) -> Result<String> {
        let state: Value = serde_json::from_str(&run(&["runc", "state", self.id])?.ok()?)?;
        Ok(state["status"].as_str().unwrap_or_default().to_owned())
    }

    /// Dumps it into `images`. What runc said, which leads to CRIU's log in `images`.
    pub(crate) fn checkpoint(&self, images: &Path, args: &[&str]) -> Result<super::Ran> {
        let images = text(images)?;
        let paths = ["--image-path", images, "--work-path", images];
        run(&[&["runc", "checkpoint"], args, &paths, &[self.id]].concat())
    }

    /// Restores it from a bundle, perhaps another one.
    pub(crate) fn restore(&self, images: &Path, bundle: &Bundle) -> Result<()> {
        let images = text(images)?;
        self.detached(&[
            "restore",
            "--detach",
            "--image-path",
            images,
            "--work-path",
            images,
            "--bundle",
            text(&bundle.path)?,
            self.id,
        ])
        .with_context(|| plugin_lines(&Path::new(images).join("restore.log")))
    }

    /// A command whose descriptors the container inherits: none of a file of ours.
    fn detached(&self, words: &[&str]) -> Result<()> {
        let _ = fs::remove_file(&self.log);
        let status = Command::new("runc")
            .args(["--log", text(&self.log)?])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        bail!("runc {}: {status}: {said}", words.join(" "))
    }
}

impl Drop for Runc {
    fn drop(&mut self) {
        let _ = run(&["runc", "delete", "--force", self.id]);
    }
}

/// The lines of CRIU's log that tell of errors and of the plugin.
pub(crate) fn plugin_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let matters = |line: &&str| line.contains("Error") || line.contains("amdgpu_plugin");
    let lines: Vec<_> = text.lines().filter(matters).collect();
    let from = lines.len().saturating_sub(30);
    format!("{}:\n{}", log.display(), lines[from..].join("\n"))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("path")
}

/// As engines write it: all namespaces, the usual mounts and masks, the devices given and no others.
pub(super) fn config(command: &[&str], devices: &[Device]) -> Value {
    let capabilities = [
        "CAP_CHOWN",
        "CAP_DAC_OVERRIDE",
        "CAP_FOWNER",
        "CAP_KILL",
        "CAP_SETGID",
        "CAP_SETUID",
    ];
    let mount = |to: &str, kind: &str, options: &str| {
        let options: Vec<_> = options.split(',').collect();
        json!({ "destination": to, "type": kind, "source": kind, "options": options })
    };
    let namespaces =
        ["pid", "network", "ipc", "uts", "mount", "cgroup"].map(|kind| json!({ "type": kind }));
    let rules = devices.iter().map(Device::rule);
    let all = json!({ "allow": false, "access": "rwm" });
    let rules: Vec<_> = std::iter::once(all).chain(rules).collect();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": command,
            "env": ["PATH=/bin"],
            "cwd": "/",
            "capabilities": { "bounding": capabilities, "effective": capabilities, "permitted": capabilities },
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs" },
        "hostname": "container",
        "mounts": [
            mount("/proc", "proc", "nosuid,noexec,nodev"),
            mount("/dev", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"),
            mount("/dev/pts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620"),
            mount("/dev/shm", "tmpfs", "nosuid,noexec,nodev,mode=1777,size=65536k"),
            mount("/dev/mqueue", "mqueue", "nosuid,noexec,nodev"),
            mount("/sys", "sysfs", "nosuid,noexec,nodev,ro"),
            mount("/sys/fs/cgroup", "cgroup", "nosuid,noexec,nodev,relatime,ro"),
        ],
        "linux": {
            "namespaces": namespaces,
            "devices": devices.iter().map(Device::node).collect::<Vec<_>>(),
            "resources": { "devices": rules },
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}
