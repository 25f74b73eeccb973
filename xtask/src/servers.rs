//! `cargo xtask servers`: the servers that stores are tested with.

use anyhow::Result;
use rocferry_vm::Servers;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Fetch and build what is not in the cache yet. Tests do so as well when they need it.
    Build,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match args.what {
        What::Build => {
            let servers = Servers::open()?;
            println!("{}", servers.registry_program()?.display());
            println!("{}", servers.s3_program()?.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}
