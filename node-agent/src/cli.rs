//! The arguments.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;
use crate::{image, topology};

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
        }
    }
}
