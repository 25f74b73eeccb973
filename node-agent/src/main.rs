//! `rocferry-agent`.
#![forbid(unsafe_code)]

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use rocferry_agent::{Cli, Error, Exit, causes};
use tracing_subscriber::filter::LevelFilter;

/// How much of the log goes to standard error: `error`, `warn` (default), `info`, `debug`, `trace`, `off`.
const LOG: &str = "ROCFERRY_LOG";

fn main() -> ExitCode {
    log();
    match run(&Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            say(&format!("Error: {}", causes(error.as_ref())));
            let next_step = error.downcast_ref::<Error>().and_then(Error::next_step);
            if let Some(next_step) = next_step {
                say(&next_step);
            }
            Exit::CannotTell.into()
        }
    }
}

fn run(cli: &Cli) -> Result<Exit> {
    let answer = cli.run()?;
    match io::stdout().lock().write_all(answer.text.as_bytes()) {
        // Whoever read it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => {
            // What was done is done: its name must not be lost.
            if other.is_err() {
                say(answer.text.trim_end());
            }
            other.context("Cannot write the answer")?;
        }
    }
    for note in &answer.notes {
        say(&format!("Note: {note}"));
    }
    Ok(answer.exit)
}

fn log() {
    let wanted = std::env::var(LOG).ok();
    let level = wanted.and_then(|level| level.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // If nobody listens, the work is done all the same.
        .log_internal_errors(false)
        .init();
}

/// A line for people. If nobody listens, the work is done all the same.
fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
