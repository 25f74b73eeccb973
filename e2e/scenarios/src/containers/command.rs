//! Commands of the engines, with what they say.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The command line.
    what: String,
    /// Exit status 0.
    pub(crate) good: bool,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Ran {
    /// Standard output without the space around it; fails unless the command succeeded.
    pub(crate) fn ok(self) -> Result<String> {
        ensure!(
            self.good,
            "{} failed: {}{}",
            self.what,
            self.stderr,
            self.stdout
        );
        Ok(self.stdout.trim().to_owned())
    }

    /// What the command said on its way to failure; fails when it succeeded.
    pub(crate) fn failed(self) -> Result<String> {
        ensure!(!self.good, "{} succeeded where it had to fail", self.what);
        Ok(self.stderr)
    }
}

/// Runs a command to its end.
pub(crate) fn run(words: &[&str]) -> Result<Ran> {
    let (program, args) = words.split_first().context("no command")?;
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ran {
        what: words.join(" "),
        good: output.status.success(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}
