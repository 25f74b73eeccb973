//! Servers that stores are tested and measured with: Debian's docker-registry, and the S3 server versitygw,
//! which is built from the Go module proxy. Both are entries of the cache, and no network is needed once they
//! are there.

use crate::cache::Cache;
use crate::fingerprint::Fingerprint;
use crate::images::extracted;
use crate::progress::Progress;
use crate::{leash, packages, rundir};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod certificate;
mod running;

pub use running::{Registry, RegistryOptions, S3Server};

/// The S3 server's module, its version, and the program in it.
const VERSITYGW: [&str; 3] = [
    "github.com/versity/versitygw",
    "v1.8.0",
    "github.com/versity/versitygw/cmd/versitygw",
];

/// The Go that it needs at least.
const GO: &str = "1.26.0";

/// What helps where there is no network.
const ONCE: &str = "`cargo xtask servers build` keeps both for machines without a network";

/// Where the programs are kept.
#[derive(Debug, Clone)]
pub struct Servers {
    cache: Cache,
}

impl Servers {
    /// Opens the cache.
    ///
    /// # Errors
    /// Those of [`Cache::open`].
    pub fn open() -> Result<Self> {
        let cache = Cache::open()?;
        rundir::sweep(cache.root());
        Ok(Self { cache })
    }

    /// Fetches and builds what is missing.
    ///
    /// # Errors
    /// The first failure, with the last lines of the failed command.
    pub fn build(&self) -> Result<()> {
        self.registry_program()?;
        self.s3_program().map(drop)
    }

    /// Debian 12's docker-registry. It is linked with a C library that every newer system has.
    ///
    /// # Errors
    /// When it cannot be fetched.
    pub fn registry_program(&self) -> Result<PathBuf> {
        let tree = extracted(
            &self.cache,
            "docker-registry",
            packages::SYSROOT_SUITE,
            &packages::REGISTRY,
        )
        .with_context(|| format!("docker-registry comes from a mirror of Debian; {ONCE}"))?;
        Ok(tree.join("usr/bin/docker-registry"))
    }

    /// The S3 server.
    ///
    /// # Errors
    /// When there is no Go that is new enough, or the module proxy cannot be reached.
    pub fn s3_program(&self) -> Result<PathBuf> {
        let key = VERSITYGW
            .iter()
            .fold(Fingerprint::new("versitygw 1"), |key, part| key.part(part))
            .key();
        let dir = self
            .cache
            .entry("versitygw", &key, build_versitygw)
            .with_context(|| {
                format!("versitygw comes from the Go module proxy (GOPROXY) and is built with Go {GO} or newer; {ONCE}")
            })?;
        Ok(dir.join("versitygw"))
    }
}

/// A module of our own that names the program, so that its own list of dependencies decides the versions.
fn build_versitygw(dir: &Path, progress: &Progress) -> Result<()> {
    let [module, version, program] = VERSITYGW;
    let work = dir.join("work");
    fs::create_dir(&work)?;
    fs::write(work.join("go.mod"), format!("module servers\n\ngo {GO}\n"))?;
    fs::write(
        work.join("tools.go"),
        format!("//go:build tools\n\npackage tools\n\nimport _ \"{program}\"\n"),
    )?;
    let go = go_program()?;
    let run = |doing: &str, args: &[&str]| {
        let mut command = leash::leashed(&go);
        command.args(args).current_dir(&work);
        command.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
        progress.step(doing, || progress.run(doing, command))
    };
    run(
        "fetching its source",
        &["get", &format!("{module}@{version}")],
    )?;
    let out = dir.join("versitygw");
    let out = out.to_str().context("Cache folder is no UTF-8")?;
    run(
        "compiling",
        &[
            "build",
            "-trimpath",
            "-ldflags",
            "-s -w",
            "-o",
            out,
            program,
        ],
    )?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

/// `go` of the search path, else where its own installer puts it.
fn go_program() -> Result<PathBuf> {
    let installed = Path::new("/usr/local/go/bin/go");
    let found = |path: &Path| {
        Command::new(path)
            .arg("version")
            .output()
            .is_ok_and(|out| out.status.success())
    };
    [Path::new("go"), installed]
        .into_iter()
        .find(|path| found(path))
        .map(Path::to_path_buf)
        .with_context(|| {
            format!(
                "No Go {GO} or newer: neither in PATH nor {}",
                installed.display()
            )
        })
}
