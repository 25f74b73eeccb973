//! `cargo xtask cluster`: a Kubernetes control plane to try things on.

use anyhow::{Context, Result};
use rocferry_cluster::{ControlPlane, Programs, cases};
use rocferry_vm::source_root;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Build Kubernetes, etcd and Helm, which takes a quarter of an hour on two cores. Tests do so as well when they need them.
    Build,
    /// Try the definitions of the API on a control plane.
    Test {
        /// Print the names of the cases, and run nothing.
        #[arg(long)]
        list: bool,
        /// Run those whose names begin so; all without any.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Start a control plane with rocferry's kinds, and a shell with kubectl and helm. It ends with the shell.
    Shell {
        /// Leave rocferry's kinds out.
        #[arg(long)]
        bare: bool,
        /// Command to run instead of the shell; its exit status becomes ours.
        #[arg(last = true, value_name = "CMD")]
        command: Vec<String>,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let What::Test { list: true, .. } = &args.what {
        for name in cases::names() {
            println!("{name}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let programs = Programs::open()?;
    match &args.what {
        What::Test { names, .. } => {
            cases::run(&programs, names)?;
            Ok(ExitCode::SUCCESS)
        }
        What::Build => {
            println!("{}", programs.etcd().display());
            println!("{}", programs.kubernetes("kube-apiserver").display());
            println!("{}", programs.helm()?.display());
            Ok(ExitCode::SUCCESS)
        }
        What::Shell { bare, command } => {
            eprintln!("[cluster] starting a control plane");
            let cluster = ControlPlane::start(&programs)?;
            if !bare {
                let definitions = source_root().join("crds");
                let definitions = definitions.to_str().context("The path is no UTF-8")?;
                cluster.kubectl(&["apply", "-f", definitions])?.ok()?;
            }
            eprintln!(
                "[cluster] ready; its files are in {}",
                cluster.dir().display()
            );
            let mut shell = cluster.shell()?;
            if !command.is_empty() {
                shell.arg("-c").arg("exec \"$@\"").arg("sh").args(command);
            }
            let code = shell.status()?.code().unwrap_or(1);
            Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
        }
    }
}
