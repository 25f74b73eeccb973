//! `rocferry-runc`: an OCI runtime that restores containers for which the node's agent has left a ticket, and is the real
//! runtime for all others.
//!
//! ```text
//! create ─▶ ticket, fence or mark? ──no──▶ become runc
//!                  │ ticket                fence, or mark without ticket ─▶ fail with the reason
//!                  ▼
//!    mounts, devices, GPUs, rights compared ─▶ files of the checkpoint put there ─▶ runc restore ─▶ proofs read ─▶ ticket held or used
//!                                          └─ failed: reason into the log, runc delete, ticket ready again
//! start  ─▶ restored by us? ──yes──▶ it runs, or is held
//! delete ─▶ runc delete, and what we remember of it goes
//! all else ─▶ become runc
//! ```
//!
//! The same program is CRIU's action script of a held restore ([`hold`]) and the leash of the runtimes that it starts
//! ([`leash`]), by the name it is called with.

mod arguments;
pub(crate) mod bundle;
mod compare;
mod create;
mod criu_log;
mod decide;
mod delete;
mod error;
mod flags;
pub(crate) mod gpus;
mod hold;
mod identity;
mod leash;
mod mounts;
mod orphans;
mod own_config;
mod place;
mod privileges;
mod proofs;
mod report;
mod restore;
mod resume;
mod runtime;
mod runtime_state;
mod saved_files;
mod settings;
mod start;
mod sweep;
mod translate;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use rustix::process::Pid;

pub use error::WrapperError;
pub(crate) use gpus::sees;
pub(crate) use own_config::is_own_config;

use crate::error::causes;
use crate::ticket::{ContainerId, TicketFolder};
use arguments::Arguments;
use place::Place;
use report::{Level, Report};
use runtime::Runtime;
use settings::Settings;

/// What every command works with.
struct Context {
    runtime: Runtime,
    arguments: Arguments,
    settings: Settings,
    report: Report,
}

impl Context {
    fn tickets(&self) -> TicketFolder {
        TicketFolder::new(&self.settings.folder)
    }

    /// The container's id, if we could have restored it under that.
    fn id(&self) -> Option<ContainerId> {
        self.arguments.id()?.to_str()?.parse().ok()
    }

    fn place(&self, id: &ContainerId) -> Place {
        Place::new(&self.settings.run_folder, self.arguments.global("root"), id)
    }

    /// What goes before the commands that we give besides the caller's: all that finds the container, and no log.
    fn globals_without_log(&self) -> Vec<OsString> {
        let kept = self.arguments.globals.iter().filter(|given| {
            let name = given.flag.map(|flag| flag.name);
            !matches!(name, None | Some("log" | "log-format"))
        });
        kept.flat_map(|given| given.raw.clone()).collect()
    }

    /// Does what the plain runtime does.
    fn plain(&self) -> Result<ExitCode, WrapperError> {
        Err(self.runtime.become_it(&self.arguments.all))
    }
}

/// Runs with the process's arguments, its own name first.
#[must_use]
pub fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let own_name = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    if own_name == leash::NAME {
        let reason = leash::become_it(&words);
        eprintln!("{}: {reason}", leash::NAME);
        return ExitCode::FAILURE;
    }
    if own_name == hold::guard::NAME {
        return hold::guard::main(&words);
    }
    if hold::is_script(Path::new(&own_name)) {
        let stage = std::env::var("CRTOOLS_SCRIPT_ACTION").unwrap_or_default();
        let init = std::env::var("CRTOOLS_INIT_PID").ok();
        let init = init.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        return hold::main(Path::new(&own_name), &stage, init);
    }
    run(&own_name, words)
}

fn run(own_name: &OsStr, words: Vec<OsString>) -> ExitCode {
    let environment = |name: &str| std::env::var_os(name);
    let (settings, warning) = Settings::read(Path::new(settings::FILE), environment);
    let path = environment("PATH");
    let found = Runtime::find(settings.runtime.as_deref(), own_name, path.as_deref());
    let runtime = match found {
        Ok(runtime) => runtime,
        Err(error) => {
            let arguments = Arguments::parse(flags::Family::Runc, words);
            Report::new(&arguments).say(Level::Error, &causes(&error));
            return ExitCode::FAILURE;
        }
    };
    let arguments = Arguments::parse(runtime.family, words);
    let report = Report::new(&arguments);
    if let Some(warning) = warning {
        report.say(Level::Warning, &warning);
    }
    let context = Context {
        runtime,
        arguments,
        settings,
        report,
    };
    let done = match context.arguments.command() {
        "create" | "run" | "restore" => create::run(&context),
        "start" => start::run(&context),
        "resume" => resume::run(&context),
        "delete" => delete::run(&context),
        _ => context.plain(),
    };
    done.unwrap_or_else(|error| {
        context.report.say(Level::Error, &causes(&error));
        ExitCode::FAILURE
    })
}
