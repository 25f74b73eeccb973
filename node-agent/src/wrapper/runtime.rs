//! The real runtime.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::error::WrapperError;
use super::flags::Family;
use super::leash;
use super::orphans::Watch;
use super::settings::FILE;

/// The runtime that does the work.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    /// The program.
    pub(crate) program: PathBuf,
    /// How its command line looks.
    pub(crate) family: Family,
}

impl Runtime {
    /// The one that is set, or the one that this program's name says: `rocferry-crun` is for `crun`.
    ///
    /// # Errors
    /// None other than this program itself.
    pub(crate) fn find(
        set: Option<&Path>,
        own_name: &OsStr,
        path: Option<&OsStr>,
    ) -> Result<Self, WrapperError> {
        let own = Path::new(own_name).file_name().unwrap_or_default();
        let implied = own.as_bytes().strip_prefix(b"rocferry-");
        let implied = implied.filter(|name| !name.is_empty()).map_or_else(
            || PathBuf::from("runc"),
            |name| PathBuf::from(OsStr::from_bytes(name)),
        );
        let name = set.map_or(implied, Path::to_owned);
        let candidates: Vec<PathBuf> = if name.components().count() > 1 {
            vec![name.clone()]
        } else {
            let path = path.map_or_else(|| OsString::from(PLACES), OsStr::to_owned);
            std::env::split_paths(&path)
                .map(|dir| dir.join(&name))
                .collect()
        };
        let program = candidates.into_iter().find(|program| is_other(program));
        let program = program.ok_or_else(|| WrapperError::NoRuntime {
            name: name.display().to_string(),
            settings: FILE.to_owned(),
        })?;
        let family = Family::of(&program);
        Ok(Self { program, family })
    }

    /// Becomes the runtime, with these arguments. Returns only if that fails.
    pub(crate) fn become_it(&self, words: &[OsString]) -> WrapperError {
        let source = Command::new(&self.program).args(words).exec();
        WrapperError::Start {
            program: self.program.clone(),
            source,
        }
    }

    /// Runs it to its end with the caller's input and output, which are the container's. It does not outlive us, and nothing
    /// of a CRIU that is killed keeps it waiting.
    pub(crate) fn run(
        &self,
        words: &[OsString],
        environment: &[(OsString, OsString)],
    ) -> Result<ExitStatus, WrapperError> {
        let mut command = leash::command(&self.program, words)?;
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command
            .spawn()
            .map_err(|source| self.cannot_start(source))?;
        let _watch = Watch::over(child.id());
        child.wait().map_err(|source| self.cannot_start(source))
    }

    /// What it prints. Its own messages go nowhere: the caller's belong to the container.
    pub(crate) fn output(&self, words: &[OsString]) -> Result<(ExitStatus, Vec<u8>), WrapperError> {
        let mut command = leash::command(&self.program, words)?;
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let output = command
            .output()
            .map_err(|source| self.cannot_start(source))?;
        Ok((output.status, output.stdout))
    }

    fn cannot_start(&self, source: std::io::Error) -> WrapperError {
        WrapperError::Start {
            program: self.program.clone(),
            source,
        }
    }
}

/// Where runtimes are, if there is no PATH.
const PLACES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program, and not this one under whatever name.
fn is_other(program: &Path) -> bool {
    let Ok(metadata) = fs::metadata(program) else {
        return false;
    };
    let own = fs::metadata("/proc/self/exe");
    let is_own = own.is_ok_and(|own| (own.dev(), own.ino()) == (metadata.dev(), metadata.ino()));
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 && !is_own
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn program(dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, "#!/bin/sh\n").expect("file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
        path
    }

    #[test]
    fn never_itself() {
        let (first, second) = (
            tempfile::tempdir().expect("folder"),
            tempfile::tempdir().expect("folder"),
        );
        let own = std::env::current_exe().expect("own");
        symlink(own, first.path().join("runc")).expect("link");
        let path = std::env::join_paths([first.path(), second.path()]).expect("path");
        let find =
            |set: Option<&Path>| Runtime::find(set, OsStr::new("/x/rocferry-runc"), Some(&path));
        find(None).expect_err("only itself");
        find(Some(&first.path().join("runc"))).expect_err("only itself");
        let real = program(second.path(), "runc");
        assert_eq!(find(None).expect("the other").program, real);
    }

    #[test]
    fn by_setting_or_by_own_name() {
        let dir = tempfile::tempdir().expect("folder");
        let (runc, crun) = (program(dir.path(), "runc"), program(dir.path(), "crun"));
        let path = dir.path().as_os_str();
        let find = |set, own: &str| Runtime::find(set, OsStr::new(own), Some(path)).expect(own);
        for (own, real, family) in [
            ("rocferry-runc", &runc, Family::Runc),
            ("/usr/bin/rocferry-crun", &crun, Family::Crun),
            ("other", &runc, Family::Runc),
        ] {
            let found = find(None, own);
            assert_eq!((&found.program, found.family), (real, family), "{own}");
        }
        let found = find(Some(Path::new("crun")), "rocferry-runc");
        assert_eq!(found.program, crun);
        fs::set_permissions(&runc, fs::Permissions::from_mode(0o644)).expect("mode");
        let error = Runtime::find(None, OsStr::new("rocferry-runc"), Some(path));
        assert!(matches!(error, Err(WrapperError::NoRuntime { .. })));
    }
}
