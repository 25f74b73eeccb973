//! What a command-line tool said.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::ExitStatus;

/// Output of kubectl or Helm.
#[derive(Debug, Clone)]
pub struct Output {
    /// The command, for messages.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Standard output of a command that ended well.
    ///
    /// # Errors
    /// When it did not, with what it said.
    pub fn ok(self) -> Result<String> {
        if !self.status.success() {
            bail!(
                "{} failed ({}): {}{}",
                self.command,
                self.status,
                self.stderr,
                self.stdout
            );
        }
        Ok(self.stdout)
    }

    /// Standard output of a command that ended well, read as JSON.
    ///
    /// # Errors
    /// When it did not, or there is no JSON.
    pub fn json(self) -> Result<Value> {
        let command = self.command.clone();
        let text = self.ok()?;
        serde_json::from_str(&text).with_context(|| format!("{command} printed no JSON: {text}"))
    }

    /// Standard error of a command that was refused.
    ///
    /// # Errors
    /// When it was not.
    pub fn refused(self) -> Result<String> {
        if self.status.success() {
            bail!("{} was not refused: {}", self.command, self.stdout);
        }
        Ok(self.stderr)
    }
}
