//! `rocferry-agent topology`.

mod check;
mod drawing;
mod fit;
mod judge;
mod load;
mod ranges;
mod report;
mod show;
mod together;

use clap::Subcommand;

pub(crate) use self::fit::{Fit, Place, fit, has_gpus, place};
pub(crate) use self::together::{Together, fit_together};
use crate::cli::Answer;
use crate::error::Error;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the GPUs of a machine, their CPUs, hives and links
    ///
    /// Without --root, this machine. In a container that is what the container may use: GPUs that it was not given
    /// are named as hidden. Numbers are those of the nodes in /sys/class/kfd/kfd/topology/nodes.
    ///
    /// JSON and YAML have the published form, which `topology check` reads and docs/topology.md describes.
    Show(show::Args),
    /// Tell whether a checkpoint can be restored on a machine's GPUs, and how or why not
    ///
    /// By default the question is that of placement: are there GPUs among the usable ones that a container could be
    /// given? The answer names them. With --all it is that of a restore inside a container that has its GPUs already:
    /// the kernel wants all of them to be used, neither more nor fewer than the process had.
    ///
    /// The switches that CRIU's plugin reads from its environment (KFD_FW_VER_CHECK=0 and so on) count here as well.
    /// All processes of a checkpoint are checked, each as the plugin will see it, and then whether they agree.
    Check(check::Args),
}

impl Command {
    pub(crate) fn run(&self) -> Result<Answer, Error> {
        match self {
            Self::Show(args) => args.run(),
            Self::Check(args) => args.run(),
        }
    }
}
