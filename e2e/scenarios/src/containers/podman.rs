//! Podman, with storage and state that go with it: the next one is on another machine for all that it can tell.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::devices::Device;
use super::root::make_root;
use super::{Ran, has_systemd, need, run};

/// The OCI runtime under it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Runtime {
    /// crun, Podman's default.
    Crun,
    /// runc.
    Runc,
}

impl Runtime {
    fn name(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
        }
    }
}

/// An engine with its own images and containers. All of it goes when dropped.
pub(crate) struct Podman {
    /// The OCI runtime, by name or path.
    runtime: String,
    /// Its storage, below a tmpfs.
    storage: PathBuf,
    /// Its state, likewise.
    state: PathBuf,
}

impl Podman {
    /// The image that all containers are made of.
    pub(crate) const IMAGE: &str = "localhost/workload:1";

    /// An archive with that image, for other engines.
    pub(crate) fn save_image(scratch: &Path) -> Result<PathBuf> {
        let podman = Self::new(Runtime::Crun, scratch)?;
        let archive = scratch.join("image.tar");
        podman
            .run(&["save", "--quiet", "--output", text(&archive)?, Self::IMAGE])?
            .ok()?;
        Ok(archive)
    }

    /// A new one, which has the image: imported from a folder, no registry.
    pub(crate) fn new(runtime: Runtime, scratch: &Path) -> Result<Self> {
        Self::through(runtime.name(), scratch)
    }

    /// The same, with this program as its runtime.
    pub(crate) fn through(runtime: &str, scratch: &Path) -> Result<Self> {
        need("podman")?;
        let podman = Self {
            runtime: runtime.to_owned(),
            storage: PathBuf::from("/var/lib/containers/case"),
            state: PathBuf::from("/run/rocferry/podman"),
        };
        let root = scratch.join("root");
        if !root.exists() {
            make_root(&root)?;
            let (root, archive) = (text(&root)?, scratch.join("root.tar"));
            run(&["tar", "-C", root, "-cf", text(&archive)?, "."])?.ok()?;
        }
        let archive = scratch.join("root.tar");
        podman
            .run(&["import", "--quiet", text(&archive)?, Self::IMAGE])?
            .ok()?;
        Ok(podman)
    }

    /// Does its runtime's name end so?
    pub(crate) fn is_through(&self, runtime: &str) -> bool {
        self.runtime.ends_with(runtime)
    }

    /// Starts a container without network, with these devices.
    pub(crate) fn start(&self, name: &str, devices: &[Device], command: &[&str]) -> Result<()> {
        let mut words = vec!["run", "-d", "--network", "none", "--name", name];
        for device in devices {
            words.extend(["--device", &device.path]);
        }
        words.push(Self::IMAGE);
        words.extend(command);
        self.run(&words)?.ok().map(drop)
    }

    /// `podman container checkpoint`.
    pub(crate) fn checkpoint(&self, name: &str, args: &[&str]) -> Result<Ran> {
        self.run(&[&["container", "checkpoint"], args, &[name]].concat())
    }

    /// `podman container restore`.
    pub(crate) fn restore(&self, args: &[&str]) -> Result<Ran> {
        self.run(&[&["container", "restore"], args].concat())
    }

    /// Pid of a container's first process.
    pub(crate) fn pid(&self, name: &str) -> Result<i32> {
        let pid = self.inspect(name, "{{.State.Pid}}")?;
        pid.parse()
            .ok()
            .filter(|pid| *pid > 0)
            .with_context(|| format!("container {name} has no process: {pid}"))
    }

    /// A field of `podman inspect`.
    pub(crate) fn inspect(&self, name: &str, format: &str) -> Result<String> {
        self.run(&["inspect", "--format", format, name])?.ok()
    }

    /// Removes a container that has ended.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.run(&["rm", name])?.ok().map(drop)
    }

    /// A program that is this Podman, for those who want a single word.
    pub(crate) fn wrapper(&self) -> Result<String> {
        let words = self.words()?;
        let file = self.state.join("podman");
        fs::write(
            &file,
            format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")),
        )?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(text(&file)?.to_owned())
    }

    /// Any command.
    pub(crate) fn run(&self, words: &[&str]) -> Result<Ran> {
        let own = self.words()?;
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        run(&[own.as_slice(), words].concat())
    }

    fn words(&self) -> Result<Vec<String>> {
        let tmp = self.state.join("tmp");
        let own = [
            "podman",
            "--root",
            text(&self.storage)?,
            "--runroot",
            text(&self.state)?,
            "--tmpdir",
            text(&tmp)?,
            "--cgroup-manager",
            if has_systemd() { "systemd" } else { "cgroupfs" },
            "--runtime",
            &self.runtime,
        ];
        Ok(own.map(str::to_owned).to_vec())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.run(&["rm", "--all", "--force", "--time", "0"]);
        for dir in [&self.storage, &self.state] {
            // Podman binds its overlay folder onto itself.
            if let Ok(dir) = text(dir) {
                let _ = run(&["umount", &format!("{dir}/overlay")]);
            }
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("path")
}
