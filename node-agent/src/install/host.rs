//! The host: its files, which may be mounted somewhere, and its programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::error::InstallError;

/// Folders with programs.
const PROGRAMS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// A host.
#[derive(Clone, Debug)]
pub(super) struct Host {
    root: PathBuf,
}

impl Host {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Is it the one that this program runs on?
    pub(super) fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where a path of the host is for this program.
    pub(super) fn real(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A program of the host, as the host calls it.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let mut places = PROGRAMS.iter().map(|folder| Path::new(folder).join(name));
        places.find(|path| self.real(path).is_file())
    }

    /// Runs a program of the host and returns what it prints.
    pub(super) fn run<S: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: &[S],
    ) -> Result<String, InstallError> {
        let mut command = match self.is_here() {
            true => Command::new(program),
            false => {
                let mut command = Command::new("chroot");
                command.arg(&self.root).arg(program);
                command
            }
        };
        command.args(arguments).stdin(Stdio::null());
        let failed = |reason: String| InstallError::Program {
            program: program.display().to_string(),
            reason,
        };
        let Output {
            status,
            stdout,
            stderr,
        } = command
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            return Err(failed(format!("{status}: {}", last.unwrap_or_default())));
        }
        String::from_utf8(stdout).map_err(|_| failed("it prints no text".to_owned()))
    }
}
