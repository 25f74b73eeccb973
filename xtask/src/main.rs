//! `cargo xtask VERB`: everything that is done with this repository beyond `cargo build`.
//!
//! One file per verb: a `clap::Args` struct named `Args` and `run(&Args) -> anyhow::Result<ExitCode>`.
#![forbid(unsafe_code)]

mod bench;
mod cluster;
mod crds;
mod demo;
mod fuzz;
mod guest;
mod images;
mod machines;
mod mutants;
mod reboot;
mod servers;
mod soak;
mod test;
mod two_machines;
mod vm;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Tasks of the rocferry repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Move a GPU process from one simulated machine to another, and prove that it is whole.
    Demo(demo::Args),
    /// Measure.
    Bench(bench::Args),
    /// Start a Kubernetes control plane to try things on, or build its programs.
    Cluster(cluster::Args),
    /// Write the definitions of the API (crds/*.yaml) and their reference (docs/api.md).
    Crds(crds::Args),
    /// Feed a parser with mutated inputs until it fails.
    Fuzz(fuzz::Args),
    /// Put known defects into the plugin, one at a time, and see that a test fails for each.
    Mutants(mutants::Args),
    /// Ask random questions for as long as one likes.
    Soak(soak::Args),
    /// Unit tests, the simulator's conformance, and all scenarios with real CRIU.
    Test(test::Args),
    /// Boot a test machine: a shell on the terminal, or one command.
    Vm(vm::Args),
    /// Build the test machines' images, show or clean their cache.
    Images(images::Args),
    /// Fetch and build the registry and the S3 server that stores are tested with.
    Servers(servers::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Cluster(args) => cluster::run(&args),
        Verb::Crds(args) => crds::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
        Verb::Mutants(args) => mutants::run(&args),
        Verb::Soak(args) => soak::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Vm(args) => vm::run(&args),
        Verb::Images(args) => images::run(&args),
        Verb::Servers(args) => servers::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("Error: {error:#}");
        ExitCode::FAILURE
    })
}
