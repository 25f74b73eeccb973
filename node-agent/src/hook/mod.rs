//! `rocferry-hook`: an OCI hook that writes down which GPUs a container was given.
//!
//! Podman and CRI-O run it as their `hooks.d` files say (`node-agent/hooks.d`): `record` at `createRuntime`, `forget` at
//! `poststop`. What it has seen lies in `containers/ID.json` below the agent's folder; a container without GPUs has no such
//! file. crun runs no hooks when it restores, so the agent does not rely on the file alone.
//!
//! A hook that fails would keep the container from starting. This one fails only when it is told to (`--strict`): else it
//! ends with 0 and a line in the system's log.
//!
//! By the name `rocferry-action` the same program is CRIU's action script (`action.rs`).

mod action;
mod error;
mod given;
mod record;
mod say;
mod state;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rocferry_topology::System;

pub(crate) use action::foreign_dumps;
pub use error::HookError;
pub use record::{ContainerRecord, RecordedGpu, Records};
pub use state::ContainerState;

use crate::error::causes;
use crate::ticket::DEFAULT_FOLDER;
use crate::wrapper::bundle::Bundle;

/// Writes down which GPUs a container was given. The runtime passes the container's state to standard input.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The agent's folder.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_FOLDER)]
    folder: PathBuf,
    /// Fail when the GPUs cannot be written down: the container then does not start.
    #[arg(long)]
    strict: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Verb {
    /// For the stage `createRuntime`.
    Record,
    /// For the stage `poststop`.
    Forget,
}

/// The program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == action::NAME) {
        action::main();
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // A wrong hooks.d file must not stop containers either; asking for help is no such thing.
            if error.use_stderr() {
                say::error(&error.to_string());
            } else {
                let _ = error.print();
            }
            return ExitCode::SUCCESS;
        }
    };
    let Err(error) = run(&arguments) else {
        return ExitCode::SUCCESS;
    };
    say::error(&causes(&error));
    if arguments.strict {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn run(arguments: &Arguments) -> Result<(), HookError> {
    let state = ContainerState::read(io::stdin().lock())?;
    let records = Records::new(&arguments.folder);
    match arguments.verb {
        Verb::Forget => Ok(records.remove(&state.id)?),
        Verb::Record => {
            let bundle = Bundle::read(&state.bundle)?;
            let nodes = given::render_nodes(&bundle);
            if nodes.is_empty() {
                // An id that is used again.
                return Ok(records.remove(&state.id)?);
            }
            let system = System::read_live()?;
            let gpus: Vec<_> = system
                .gpus()
                .filter(|gpu| nodes.contains(&gpu.render_minor))
                .map(|gpu| RecordedGpu {
                    gpu_id: gpu.id,
                    render_minor: gpu.render_minor,
                })
                .collect();
            if gpus.is_empty() {
                return Ok(records.remove(&state.id)?);
            }
            Ok(records.put(&ContainerRecord::new(state, gpus))?)
        }
    }
}
