//! `cargo xtask soak NAME`: tests with random questions that go on for as long as one likes.

use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rocferry_vm::source_root;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is tested.
    name: Name,
    /// For how long.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The same seed asks the same questions. Another one each time if there is none.
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// The matcher of GPUs against brute force.
    Matching,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let seed = match args.seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let (package, test) = match args.name {
        Name::Matching => ("rocferry-topology", "oracle"),
    };
    println!("Seed {seed}, for {} s", args.seconds);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(source_root())
        .args(["test", "--quiet", "--release", "--package", package])
        .args(["--test", test, "--"])
        .args(["--ignored", "--exact", "--nocapture", "soak"])
        .env("ROCFERRY_ORACLE_SECONDS", args.seconds.to_string())
        .env("ROCFERRY_ORACLE_SEED", seed.to_string())
        .status()
        .context("Cannot start cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
