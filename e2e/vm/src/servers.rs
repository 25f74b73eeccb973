//! Servers that stores are tested and measured with: Debian's docker-registry, and the S3 server versitygw,
//! which is built from the Go module proxy. Both are entries of the cache, and no network is needed once they
//! are there.

use crate::cache::Cache;
use crate::go::GoModule;
use crate::images::extracted;
use crate::{packages, rundir};
use anyhow::{Context, Result};
use std::path::PathBuf;

mod certificate;
mod running;

pub use running::{Registry, RegistryOptions, S3Server};

/// The S3 server.
const VERSITYGW: GoModule = GoModule {
    name: "versitygw",
    module: "github.com/versity/versitygw",
    version: "v1.8.0",
    go: "1.26.0",
    programs: &[("versitygw", "github.com/versity/versitygw/cmd/versitygw")],
    variables: &[],
    staging: None,
};

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
        let dir = VERSITYGW.built(&self.cache).context(ONCE)?;
        Ok(dir.join("versitygw"))
    }
}
