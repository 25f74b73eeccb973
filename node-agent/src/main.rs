//! `rocferry-agent`.
#![forbid(unsafe_code)]

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use rocferry_agent::{Cli, Error, Exit, LogFormat, causes};
use tracing_subscriber::filter::LevelFilter;

/// How much of the log goes to standard error: `error`, `warn` (default; `info` for the daemon), `info`, `debug`, `trace`,
/// `off`.
const LOG: &str = "ROCFERRY_LOG";

fn main() -> ExitCode {
    let cli = Cli::parse();
    log(&cli);
    let form = cli.log_format();
    match run(&cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let next_step = error.downcast_ref::<Error>().and_then(Error::next_step);
            let text = causes(error.as_ref());
            if form == LogFormat::Json {
                tracing::error!(next_step, "{text}");
                return Exit::CannotTell.into();
            }
            say(&format!("Error: {text}"));
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
        match cli.log_format() {
            LogFormat::Json => tracing::warn!("{note}"),
            LogFormat::Text => say(&format!("Note: {note}")),
        }
    }
    Ok(answer.exit)
}

fn log(cli: &Cli) {
    let wanted = std::env::var(LOG).ok();
    let level = wanted.and_then(|level| level.parse().ok());
    let usual = match cli.is_daemon() {
        true => LevelFilter::INFO,
        false => LevelFilter::WARN,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(usual))
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // If nobody listens, the work is done all the same.
        .log_internal_errors(false);
    match cli.log_format() {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// A line for people. If nobody listens, the work is done all the same.
fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
