//! CRIU: which one, where its plugins are, and the options that all uses share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::RuntimeError;

/// Where CRIU looks for plugins if nobody says otherwise, in the packages of distributions.
pub(crate) const PLUGIN_FOLDERS: [&str; 4] = [
    "/usr/lib/criu",
    "/usr/lib64/criu",
    "/usr/lib/x86_64-linux-gnu/criu",
    "/usr/local/lib/criu",
];

/// File name of the plugin.
const PLUGIN: &str = "amdgpu_plugin.so";

/// Major and minor version, and the patch level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CriuVersion(pub u32, pub u32, pub u32);

impl CriuVersion {
    /// The oldest that the plugin works with.
    pub const OLDEST: Self = Self(3, 17, 0);

    /// The first that closes connections when it dumps (`--tcp-close`), and not only when it restores.
    pub const CLOSES: Self = Self(4, 0, 0);

    /// Reads what `criu --version` says.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Version: "))?;
        let number = |part: Option<&str>| {
            let digits = part?.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        };
        let mut parts = line.trim().split('.');
        let (major, minor) = (number(parts.next())?, number(parts.next())?);
        Some(Self(major, minor, number(parts.next()).unwrap_or(0)))
    }
}

impl fmt::Display for CriuVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)?;
        if self.2 > 0 {
            write!(f, ".{}", self.2)?;
        }
        Ok(())
    }
}

/// The program, and a folder of plugins if CRIU's own is not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criu {
    /// Program: a name or a path.
    pub program: PathBuf,
    /// Folder of plugins.
    pub plugins: Option<PathBuf>,
}

impl Criu {
    /// Asks the program for its version.
    ///
    /// # Errors
    /// It is not there, or says nothing that can be understood.
    pub fn version(&self) -> Result<CriuVersion, RuntimeError> {
        let program = self.program.display().to_string();
        let output = Command::new(&self.program)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| RuntimeError::Program {
                program: program.clone(),
                source,
            })?;
        let text = String::from_utf8_lossy(&output.stdout);
        CriuVersion::parse(&text).ok_or_else(|| RuntimeError::Says {
            program: format!("{program} --version"),
            text: first_line(&text, &output.stderr),
        })
    }

    /// The plugin's file, where CRIU will find it.
    #[must_use]
    pub fn plugin(&self) -> Option<PathBuf> {
        let folders: Vec<PathBuf> = match (&self.plugins, std::env::var_os("CRIU_LIBS_DIR")) {
            (Some(folder), _) => vec![folder.clone()],
            (None, Some(folder)) => vec![folder.into()],
            (None, None) => PLUGIN_FOLDERS.map(PathBuf::from).to_vec(),
        };
        let mut files = folders.iter().map(|folder| folder.join(PLUGIN));
        files.find(|file| file.is_file())
    }

    /// Dumps a process that nobody needs, to see whether CRIU loads the plugin; the reason if it does not.
    pub(crate) fn trial(&self, pid: u32, dir: &Path) -> Result<(), String> {
        let mut command = self.command("dump", dir, dir, "trial.log", "");
        command
            .arg("--shell-job")
            .arg("-t")
            .arg(pid.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = command.status().map_err(|error| error.to_string())?;
        let log = dir.join("trial.log");
        if !status.success() {
            let tail = super::job::tail(&log, &dir.join("none"));
            return Err(format!("a trial dump failed ({status}): {tail}"));
        }
        let text = std::fs::read(&log).unwrap_or_default();
        match String::from_utf8_lossy(&text).contains("amdgpu_plugin") {
            true => Ok(()),
            false => Err("it was not loaded in a trial dump".to_owned()),
        }
    }

    /// CRIU with a log in the work folder. A limit on the size of its files makes it fail in good order instead of
    /// killing it, which is how it is cancelled ([`super::Cancel::Limit`]).
    pub(super) fn command(
        &self,
        verb: &str,
        images: &Path,
        work: &Path,
        log: &str,
        prepare: &str,
    ) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!("trap '' XFSZ; {prepare}exec \"$@\""))
            .arg("sh")
            .arg(&self.program)
            .arg(verb)
            .arg("-D")
            .arg(images)
            .arg("-W")
            .arg(work)
            .args(["-o", log, "-v4"]);
        if let Some(plugins) = &self.plugins {
            command.arg("-L").arg(plugins);
        }
        command
    }
}

/// What a program says, a line of it.
pub(super) fn first_line(stdout: &str, stderr: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(stderr);
    let lines = stderr.lines().chain(stdout.lines());
    let line = lines.map(str::trim).find(|line| !line.is_empty());
    let line: String = line.unwrap_or("nothing").chars().take(400).collect();
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text| CriuVersion::parse(text);
        assert_eq!(version("Version: 4.2\n"), Some(CriuVersion(4, 2, 0)));
        let dev = "Version: 3.17.1-dirty\nGitID: v4.1\n";
        assert_eq!(version(dev), Some(CriuVersion(3, 17, 1)));
        assert_eq!(version("criu 4.2"), None);
        assert_eq!(version("Version: four"), None);
        assert!(CriuVersion(3, 9, 0) < CriuVersion::OLDEST);
        assert!(CriuVersion(3, 17, 1) > CriuVersion::OLDEST);
        assert_eq!(CriuVersion(4, 2, 1).to_string(), "4.2.1");
        assert_eq!(CriuVersion(4, 2, 0).to_string(), "4.2");
    }

    #[test]
    fn a_missing_program_is_named() {
        let criu = Criu {
            program: "/nowhere/criu".into(),
            plugins: None,
        };
        let error = criu.version().expect_err("it is not there");
        assert_eq!(error.to_string(), "Cannot run /nowhere/criu");
    }
}
