//! Where checkpoints are kept, and by which commands without a store.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rocferry_vm::{S3Server, Servers};
use tempfile::TempDir;

use crate::Done;

/// A new place that is gone when it is dropped.
#[derive(Debug)]
pub(crate) enum Place {
    S3(S3Server),
    Directory(TempDir),
}

/// What follows a pipe that packs a directory, and what comes before one that unpacks it.
const TO_S3: &str = "\"$SPEED\" upload \"$BUCKET\" \"$NAME\"";
const FROM_S3: &str = "\"$SPEED\" download \"$BUCKET\" \"$NAME\"";

impl Place {
    pub(crate) fn s3() -> Done<Self> {
        Ok(Self::S3(Servers::open()?.start_s3(None)?))
    }

    pub(crate) fn directory() -> Done<Self> {
        Ok(Self::Directory(tempfile::tempdir()?))
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::S3(_) => "s3",
            Self::Directory(_) => "directory",
        }
    }

    /// Where the objects lie as files.
    pub(crate) fn dir(&self) -> PathBuf {
        match self {
            Self::S3(server) => server.bucket_dir(S3Server::bucket()),
            Self::Directory(dir) => dir.path().to_owned(),
        }
    }

    /// URL of a store in it.
    pub(crate) fn store(&self, name: &str) -> Done<String> {
        match self {
            Self::S3(_) => Ok(format!("s3://{}/{name}", S3Server::bucket())),
            Self::Directory(dir) => {
                let dir = dir.path().join(name);
                fs::create_dir_all(&dir)?;
                Ok(format!("file://{}", dir.to_str().ok_or("No UTF-8")?))
            }
        }
    }

    /// `tar | zstd -3 | upload`. What is acknowledged is as durable as a store's pack.
    pub(crate) fn pack(&self, dir: &Path, name: &str) -> Done<Command> {
        let end = match self {
            Self::S3(_) => format!("| {TO_S3}"),
            Self::Directory(_) => "> \"$NAME\"; sync \"$NAME\"".to_owned(),
        };
        let script = format!("tar -C \"$DIR\" -cf - . | zstd -3 -q -c {end}");
        self.shell(&script, dir, name)
    }

    /// `download | zstd -d | tar`.
    pub(crate) fn unpack(&self, name: &str, dir: &Path) -> Done<Command> {
        fs::create_dir(dir)?;
        let begin = match self {
            Self::S3(_) => format!("{FROM_S3} | zstd -dc"),
            Self::Directory(_) => "zstd -dc < \"$NAME\"".to_owned(),
        };
        let script = format!("{begin} | tar -C \"$DIR\" -xf -");
        self.shell(&script, dir, name)
    }

    fn shell(&self, script: &str, dir: &Path, name: &str) -> Done<Command> {
        let mut command = self.command("bash")?;
        let name = match self {
            Self::S3(_) => PathBuf::from(name),
            Self::Directory(at) => at.path().join(name),
        };
        command.args(["-c", &format!("set -euo pipefail; {script}")]);
        command.env("SPEED", std::env::current_exe()?);
        command.env("BUCKET", S3Server::bucket());
        command.env("NAME", name).env("DIR", dir);
        Ok(command)
    }

    /// This program, doing [`work`](crate::work::work).
    pub(crate) fn work(&self, arguments: &[&OsStr]) -> Done<Command> {
        let mut command = self.command(std::env::current_exe()?)?;
        command.args(arguments);
        Ok(command)
    }

    /// A command that knows the server, and nothing of what else the environment says of servers.
    fn command(&self, program: impl AsRef<OsStr>) -> Done<Command> {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"AWS_") {
                command.env_remove(name);
            }
        }
        if let Self::S3(server) = self {
            command
                .env("AWS_ENDPOINT_URL", server.endpoint())
                .env("AWS_REGION", "us-east-1")
                .env("AWS_ACCESS_KEY_ID", server.access_key())
                .env("AWS_SECRET_ACCESS_KEY", server.secret_key());
        }
        Ok(command)
    }
}
