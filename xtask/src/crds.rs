//! `cargo xtask crds`: the API's definitions and their reference, written from the types.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, bail};
use rocferry_vm::source_root;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(source_root())
        .args([
            "run",
            "--quiet",
            "--package",
            "rocferry-crds",
            "--",
            "crds",
            "docs/api.md",
        ])
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("The definitions cannot be written");
    }
    Ok(ExitCode::SUCCESS)
}
