//! `cargo xtask images`: builds every image and what else machines need from outside; shows or cleans the cache.

use anyhow::{Context, Result};
use rocferry_vm::{Cache, Lab, Userland};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List what is in the cache and build nothing.
    #[arg(long)]
    show: bool,
    /// Remove entries not used for this many days (0: all that no other run uses now), build nothing.
    #[arg(long, value_name = "DAYS", conflicts_with = "show")]
    prune: Option<u64>,
    /// Remove all entries of this name first, as listed by --show. Other images made from it follow.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["show", "prune"])]
    rebuild: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.show {
        return show();
    }
    if let Some(days) = args.prune {
        let seconds = days.checked_mul(24 * 3600).context("Too many days")?;
        for gone in Cache::open()?.prune(Duration::from_secs(seconds))? {
            println!("removed {gone}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let lab = Lab::open()?;
    for name in &args.rebuild {
        lab.cache().forget(name)?;
    }
    lab.prepare(&Userland::ALL)?;
    lab.crictl()?;
    eprintln!(
        "[images] all there after {:.0} s, in {}",
        begun.elapsed().as_secs_f64(),
        lab.cache().root().display()
    );
    Ok(ExitCode::SUCCESS)
}

fn show() -> Result<ExitCode> {
    let cache = Cache::open()?;
    println!("{}", cache.root().display());
    let mut sum = 0;
    for entry in cache.entries()? {
        sum += entry.bytes;
        println!(
            "{:>6} MiB  {:<20} {}  last used {} h ago",
            entry.bytes >> 20,
            entry.name,
            entry.key,
            entry.unused.as_secs() / 3600
        );
    }
    println!("{:>6} MiB  in all", sum >> 20);
    Ok(ExitCode::SUCCESS)
}
