//! Trees of Debian packages, made by mmdebstrap.
//!
//! It writes an archive to a pipe, straight into a squashfs or an unpacked tree. All of it runs in
//! namespaces of its own with its work under the cache entry's temporary folder: killed at any time, it
//! leaves plain files there and no mounts.

use crate::fingerprint::Fingerprint;
use crate::progress::Progress;
use crate::{host, leash, mirror};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// What a tree is made from.
pub(super) struct Bootstrap {
    pub(super) suite: &'static str,
    /// mmdebstrap's variant: `minbase` installs, `extract` only unpacks.
    pub(super) variant: &'static str,
    pub(super) packages: Vec<&'static str>,
    /// Shell command run before the packages are installed; `$1` is the tree.
    pub(super) hook: Option<&'static str>,
}

impl Bootstrap {
    /// Adds all of it to a key. The mirror is left out: all of them carry the same packages.
    pub(super) fn part_of(&self, key: Fingerprint) -> Fingerprint {
        let key = key
            .part(self.suite)
            .part(self.variant)
            .part(self.hook.unwrap_or_default());
        self.packages.iter().fold(key, Fingerprint::part)
    }

    fn doing(&self) -> String {
        let (what, n) = (
            if self.variant == "extract" {
                "unpacking"
            } else {
                "installing"
            },
            self.packages.len(),
        );
        format!("{what} {n} packages of {} and what they need", self.suite)
    }

    fn command(&self, tmp: &Path) -> Result<Command> {
        let work = tmp.join("work");
        std::fs::create_dir(&work)?;
        let mut command = if host::is_root() {
            let mut c = leash::contained("mmdebstrap", false);
            c.arg("--mode=root");
            c
        } else {
            // It makes its own namespaces, from the ranges in /etc/subuid, and has to reach its work there.
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&work, PermissionsExt::from_mode(0o1777))?;
            let mut c = leash::leashed("setsid");
            c.args(["mmdebstrap", "--mode=unshare"]);
            c
        };
        command.env("TMPDIR", &work).env("LC_ALL", "C.UTF-8");
        command.args(["--format=tar", "--architectures=amd64"]);
        command.arg(format!("--variant={}", self.variant));
        command.arg(format!("--include={}", self.packages.join(",")));
        command.arg("--aptopt=APT::Install-Recommends \"false\"");
        for dir in ["doc", "info", "locale", "man"] {
            command.arg(format!("--dpkgopt=path-exclude=/usr/share/{dir}/*"));
        }
        command.args(["--dpkgopt=force-confold", "--dpkgopt=force-unsafe-io"]);
        if let Some(hook) = self.hook {
            command.arg(format!("--essential-hook={hook}"));
        }
        // See docs/decisions/0002-sid-expired-release.md.
        let expired = self.suite == "sid";
        match mirror::debian_mirror() {
            Some(uri) => {
                let until = if expired { " check-valid-until=no" } else { "" };
                let keyring = ["gpg", "pgp"]
                    .map(|e| format!("/usr/share/keyrings/debian-archive-keyring.{e}"))
                    .into_iter()
                    .find(|p| Path::new(p).exists())
                    .context("No Debian archive keyring")?;
                command.args([self.suite, "-"]);
                command.arg(format!(
                    "deb [signed-by={keyring}{until}] {uri} {} main",
                    self.suite
                ));
            }
            None => {
                if expired {
                    command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
                }
                command.args([self.suite, "-"]);
            }
        }
        Ok(command)
    }

    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        if host::is_root() {
            return error;
        }
        error.context(
            "Building images without root needs unprivileged user namespaces and ranges for this \
             user in /etc/subuid and /etc/subgid; without them run the same command as root",
        )
    }
}

/// Builds into a squashfs image.
pub(super) fn into_squashfs(
    wanted: &Bootstrap,
    image: &Path,
    tmp: &Path,
    progress: &Progress,
) -> Result<()> {
    let doing = wanted.doing();
    progress.step(&doing, || {
        // Not sqfstar: that of Debian 12 takes no options of the compressor.
        let mut pack = leash::leashed("mksquashfs");
        pack.arg("-")
            .arg(image)
            .args(["-tar", "-comp", "zstd", "-Xcompression-level", "3"]);
        pack.args(["-noappend", "-no-progress", "-quiet"]);
        progress
            .pipe(&doing, wanted.command(tmp)?, pack)
            .map_err(|e| wanted.explain(e))
    })?;
    remove_work(tmp)
}

/// Builds into a folder.
pub(super) fn into_tree(
    wanted: &Bootstrap,
    tree: &Path,
    tmp: &Path,
    progress: &Progress,
) -> Result<()> {
    let doing = wanted.doing();
    std::fs::create_dir(tree)?;
    progress.step(&doing, || {
        let mut unpack = leash::leashed("tar");
        // Device nodes cannot be made without root and are not needed: the host's /dev is bound there.
        unpack
            .args(["-x", "--exclude=./dev/*", "--no-same-owner", "-C"])
            .arg(tree);
        progress
            .pipe(&doing, wanted.command(tmp)?, unpack)
            .map_err(|e| wanted.explain(e))
    })?;
    remove_work(tmp)
}

fn remove_work(tmp: &Path) -> Result<()> {
    let work = tmp.join("work");
    std::fs::remove_dir_all(&work).with_context(|| format!("Cannot remove {}", work.display()))
}
