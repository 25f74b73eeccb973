//! The arguments.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;
use crate::{
    checkpoint, decision, freeze, image, install, journal, prepare, probes, restore, topology,
};

/// The rocferry node agent.
#[derive(Debug, Parser)]
#[command(
    name = "rocferry-agent",
    version,
    about = "Moves running work that uses AMD GPUs: the part on a GPU node"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// GPUs, their links, and which checkpoint fits on them
    #[command(subcommand)]
    Topology(topology::Command),
    /// Checkpoints in a store: list, store, read, verify, clean up
    #[command(subcommand)]
    Image(Box<image::Command>),
    /// Dump a running container and store the checkpoint
    ///
    /// What speaks against it is found first, and nothing is touched then. A dump that fails, takes too long or is
    /// interrupted leaves the container as it was.
    Checkpoint(Box<checkpoint::Args>),
    /// Restore a checkpoint from a store
    Restore(Box<restore::Args>),
    /// Have the containers of a pod restored when they are made, in the place of being started
    ///
    /// Files are read and verified, GPUs matched, and a ticket left for the runtime wrapper for each container.
    Prepare(Box<prepare::Args>),
    /// Remove what was prepared for a pod and is not used
    Discard(prepare::DiscardArgs),
    /// Keep a container of a pod from being made on this node
    Fence(prepare::FenceArgs),
    /// Let it be made again
    Unfence(prepare::UnfenceArgs),
    /// Bring the decision about a migrated pod: once, for good
    ///
    /// A source that is prepared goes on only when it is aborted; a held target only when it is committed and its source
    /// is known to be gone or fenced.
    Decide(decision::DecideArgs),
    /// Freeze a container until `thaw`
    Freeze(freeze::FreezeArgs),
    /// Let a frozen container go on
    Thaw(freeze::ThawArgs),
    /// Kill a container or pod that is held frozen and has a checkpoint: nothing of it is left when this returns
    ///
    /// A pod's cgroup stays frozen until the pod is deleted: what the kubelet starts in it again does not run.
    Stop(freeze::StopArgs),
    /// Show what this node has frozen, holds and has under way
    Status(freeze::StatusArgs),
    /// Put right what an agent has left that was killed: to be run when the agent starts
    ///
    /// Containers run again, or stay frozen where that was the end of what was asked for; half restored ones end.
    Recover(journal::RecoverArgs),
    /// Answer the kubelet's probes in the place of a frozen pod, until told to stop
    ///
    /// Liveness with success, readiness with failure; nobody but the node gets a connection. To be started before the
    /// freeze, and ended before the thaw.
    AnswerProbes(probes::Args),
    /// Put plugin, programs and the runtime in place on this host
    ///
    /// Podman, CRI-O and containerd, where they are there, get a runtime named rocferry; what they have stays as it is. CRIU is
    /// tried with the plugin before anything is changed. Nothing is restarted.
    Install(install::InstallArgs),
    /// Make this host as it was before `install`
    Uninstall(install::UninstallArgs),
}

/// What scripts get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done; the answer is yes.
    Yes,
    /// 1: the answer is no: the checkpoint does not fit, there are faults, not everything could be done.
    No,
    /// 2: something cannot be read or makes no sense, or the search was given up.
    CannotTell,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Yes => Self::SUCCESS,
            Exit::No => Self::from(1),
            Exit::CannotTell => Self::from(2),
        }
    }
}

/// What a command has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// For standard error, a line each.
    pub notes: Vec<String>,
    /// How the process is to end.
    pub exit: Exit,
}

impl Cli {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// [`Error`], for what cannot be read or makes no sense.
    pub fn run(&self) -> Result<Answer, Error> {
        match &self.command {
            Command::Topology(command) => command.run(),
            Command::Image(command) => command.run(),
            Command::Checkpoint(args) => block_on(args.run()),
            Command::Restore(args) => block_on(args.run()),
            Command::Prepare(args) => block_on(args.run()),
            Command::Discard(args) => args.run(),
            Command::Fence(args) => args.run(),
            Command::Unfence(args) => args.run(),
            Command::Decide(args) => args.run(),
            Command::Freeze(args) => args.run(),
            Command::Thaw(args) => args.run(),
            Command::Stop(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Recover(args) => block_on(args.run()),
            Command::AnswerProbes(args) => block_on(args.run()),
            Command::Install(args) => args.run(),
            Command::Uninstall(args) => args.run(),
        }
    }
}

/// Runs work that waits for many things at once.
pub(crate) fn block_on(work: impl Future<Output = Result<Answer, Error>>) -> Result<Answer, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::Runtime { source })?
        .block_on(work)
}
