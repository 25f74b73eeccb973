//! Real CRIU with the plugin installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::case::BIN;
use crate::proc;

/// Major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

/// CRIU and where it finds plugins.
#[derive(Clone)]
pub(crate) struct Criu {
    /// Its version.
    pub(crate) version: Version,
    libdir: PathBuf,
    environment: Vec<(String, String)>,
}

/// How a CRIU command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code; -1 when a signal ended it.
    pub(crate) code: i32,
    /// Its log.
    pub(crate) log: String,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Ended {
    /// The log's lines of errors and of the plugin.
    pub(crate) fn story(&self) -> String {
        let matters = |line: &&str| line.contains("Error") || line.contains("amdgpu_plugin");
        let lines: Vec<_> = self.log.lines().filter(matters).collect();
        let from = lines.len().saturating_sub(30);
        format!("exit {}\n{}", self.code, lines[from..].join("\n"))
    }

    /// Fails unless CRIU succeeded.
    pub(crate) fn ok(self) -> Result<Self> {
        ensure!(self.code == 0, "CRIU failed: {}", self.story());
        Ok(self)
    }

    /// Fails unless CRIU failed, with a log that holds every one of `words`.
    pub(crate) fn refused(self, words: &[&str]) -> Result<Self> {
        ensure!(self.code != 0, "CRIU succeeded where it had to fail");
        ensure!(
            self.code > 0,
            "CRIU was ended by a signal: {}",
            self.story()
        );
        for word in words {
            ensure!(
                self.log.contains(word),
                "the log does not say {word:?}: {}",
                self.story()
            );
        }
        Ok(self)
    }
}

impl Criu {
    /// Finds CRIU and puts the plugin (`/host/bin/amdgpu_plugin.so`, or the file that ROCFERRY_PLUGIN
    /// names) alone into a folder of its own.
    pub(crate) fn install() -> Result<Self> {
        let plugin =
            std::env::var("ROCFERRY_PLUGIN").unwrap_or_else(|_| format!("{BIN}/amdgpu_plugin.so"));
        let libdir = PathBuf::from("/run/rocferry/plugins");
        fs::create_dir_all(&libdir)?;
        // A new inode: the old one may still be mapped by a CRIU of an earlier case.
        let _ = fs::remove_file(libdir.join("amdgpu_plugin.so"));
        fs::copy(&plugin, libdir.join("amdgpu_plugin.so"))
            .with_context(|| format!("cannot install {plugin}"))?;
        let output = Command::new("criu")
            .arg("--version")
            .output()
            .context("no criu")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let word = text
            .split_ascii_whitespace()
            .nth(1)
            .context("criu --version says nothing")?;
        let mut parts = word.split('.').map_while(|part| part.parse().ok());
        let version = Version(parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        Ok(Self {
            version,
            libdir,
            environment: Vec::new(),
        })
    }

    /// The folder of plugins.
    pub(crate) fn libdir(&self) -> &Path {
        &self.libdir
    }

    /// Another folder of plugins.
    pub(crate) fn with_plugins(&self, libdir: &Path) -> Self {
        Self {
            libdir: libdir.to_owned(),
            ..self.clone()
        }
    }

    /// With an environment variable.
    pub(crate) fn with_env(&self, name: &str, value: &str) -> Self {
        let mut with = self.clone();
        with.environment.push((name.to_owned(), value.to_owned()));
        with
    }

    /// `criu dump`. The process is ended unless `args` has `--leave-running`.
    pub(crate) fn dump(&self, pid: i32, images: &Path, args: &[&str]) -> Result<Ended> {
        let pid = pid.to_string();
        let mut words = vec![
            "dump",
            "-t",
            &pid,
            "--shell-job",
            "--ext-unix-sk",
            "--file-locks",
        ];
        if self.version < Version(4, 0) {
            // 3.17 looks for a build id in files that are open, and moves the position of ELF files by it.
            words.extend(["--file-validation", "filesize"]);
        }
        words.extend(args);
        self.command(images, "dump.log", &words)
    }

    /// `criu pre-dump`.
    pub(crate) fn pre_dump(&self, pid: i32, images: &Path, args: &[&str]) -> Result<Ended> {
        let pid = pid.to_string();
        let mut words = vec!["pre-dump", "-t", &pid, "--shell-job"];
        words.extend(args);
        self.command(images, "pre-dump.log", &words)
    }

    /// `criu restore` in the background; the pid of the restored process.
    pub(crate) fn restore(&self, images: &Path, args: &[&str]) -> Result<i32> {
        let (ended, pid) = self.try_restore(images, args)?;
        ended.ok()?;
        pid.context("CRIU wrote no pid file")
    }

    /// `criu restore` that may fail.
    pub(crate) fn try_restore(&self, images: &Path, args: &[&str]) -> Result<(Ended, Option<i32>)> {
        let pidfile = images.join("restored.pid");
        let _ = fs::remove_file(&pidfile);
        let path = pidfile.to_str().context("path")?.to_owned();
        let mut words = vec![
            "restore",
            "--shell-job",
            "--restore-detached",
            "--pidfile",
            &path,
        ];
        words.extend(args);
        let ended = self.command(images, "restore.log", &words)?;
        let pid = fs::read_to_string(&pidfile)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        Ok((ended, pid))
    }

    /// A CRIU command on a folder of images, with the plugin, to be started by the caller.
    pub(crate) fn background(&self, words: &[&str], images: &Path) -> Command {
        let mut command = Command::new("criu");
        command
            .args(words)
            .arg("-D")
            .arg(images)
            .arg("-L")
            .arg(&self.libdir)
            .args(["-v4", "-o", "background.log"])
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Any CRIU command on a folder of images, with the plugin and a debug log.
    pub(crate) fn command(&self, images: &Path, log: &str, words: &[&str]) -> Result<Ended> {
        // The log lies in CRIU's work directory: the last -W wins over the images.
        let work = words
            .iter()
            .position(|word| *word == "-W")
            .and_then(|at| words.get(at + 1));
        let log_file = work
            .map_or_else(|| images.to_owned(), PathBuf::from)
            .join(log);
        let begun = Instant::now();
        let mut command = Command::new("criu");
        command
            .args(words)
            .arg("-D")
            .arg(images)
            .arg("-L")
            .arg(&self.libdir)
            .args(["-v4", "-o", log])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(std::process::Stdio::null());
        let status = proc::run_limited(&mut command, Duration::from_secs(300))?;
        let log = fs::read(&log_file).unwrap_or_default();
        Ok(Ended {
            code: status.code().unwrap_or(-1),
            log: String::from_utf8_lossy(&log).into_owned(),
            took: begun.elapsed(),
        })
    }
}
