//! End-to-end tests that run inside the virtual machine: real CRIU, our plugin, simulated GPUs.
//!
//! `scenarios list` names the cases, `scenarios run [NAME…]` runs those whose names begin with one of the
//! arguments (all without), one line each as it ends, and a closing line `N passed, N failed, N skipped`.
//! A case gets a freshly loaded simulator and an empty folder, and may leave nothing behind.
#![forbid(unsafe_code)]

mod case;
mod cases;
mod containers;
mod criu;
mod hang;
mod image_files;
mod proc;
mod rocminfo;
mod run;
mod sim;
mod standing;
mod streamer;
mod trip;
mod view;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs the end-to-end cases.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Names of all cases.
    List,
    /// Runs cases.
    Run {
        /// Beginnings of names; none = all.
        names: Vec<String>,
        /// Names to be left out.
        #[arg(long)]
        skip: Vec<String>,
        /// Names of cases that have passed elsewhere: one that is the same as such a case does not run.
        #[arg(long)]
        passed: Vec<String>,
        /// How often each case runs, one time after the other.
        #[arg(long, default_value_t = 1)]
        repeat: u32,
        /// Keep the folder and print the logs of passing cases too.
        #[arg(long)]
        verbose: bool,
    },
    /// Runs one half of a case across a reboot, for whoever restarts the machine in between.
    #[command(hide = true)]
    Half {
        /// Its name.
        name: String,
        /// `before` or `after`.
        half: String,
    },
    /// Runs one leg of a case over two machines, for whoever starts them.
    #[command(hide = true)]
    Leg {
        /// Its name.
        name: String,
        /// `first`, `second` or `third`.
        leg: String,
    },
    /// Measures; prints one JSON object a line.
    Bench {
        /// `staging` or `registrations`.
        name: String,
        /// Arguments of the benchmark.
        args: Vec<String>,
    },
    /// First process of a container; used by the cases themselves.
    #[command(hide = true)]
    Enter {
        /// The new root.
        root: PathBuf,
        /// A folder to be seen inside under the same name.
        state: PathBuf,
        /// What to become.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Args::parse().verb {
        Verb::List => {
            run::list();
            Ok(true)
        }
        Verb::Run {
            names,
            skip,
            passed,
            repeat,
            verbose,
        } => run::run(&run::Choice {
            names,
            skip,
            passed,
            repeat,
            verbose,
        }),
        Verb::Half { name, half } => run::half(&name, &half),
        Verb::Leg { name, leg } => run::leg(&name, &leg),
        Verb::Bench { name, args } => cases::bench::run(&name, &args),
        Verb::Enter {
            root,
            state,
            command,
        } => cases::namespaces::enter(&root, &state, &command),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scenarios: {error:#}");
            ExitCode::FAILURE
        }
    }
}
