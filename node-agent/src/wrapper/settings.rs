//! What an administrator has set.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::ticket::{DEFAULT_FOLDER, read_bounded};

/// Where they are.
pub(crate) const FILE: &str = "/etc/rocferry/runc.json";

/// More than anybody writes there.
const MAX_FILE: u64 = 64 << 10;

/// Settings of the wrapper.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The real runtime: a path, or a name to be found in PATH. Default: what this program's name says after `rocferry-`.
    pub(crate) runtime: Option<PathBuf>,
    /// Folder with tickets and fences.
    pub(crate) folder: PathBuf,
    /// Folder for what does not outlive a reboot. On a file system that holds symbolic links.
    pub(crate) run_folder: PathBuf,
    /// Where the topology of the node's GPUs is read: `live`, or a copy of its folder.
    pub(crate) topology: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            runtime: None,
            folder: DEFAULT_FOLDER.into(),
            run_folder: "/run/rocferry".into(),
            topology: "live".into(),
        }
    }
}

impl Settings {
    /// From the file, and over it the environment. A file that makes no sense must not keep containers that have
    /// nothing to do with us from starting: the defaults count then, and what is wrong is said.
    pub(crate) fn read(
        file: &Path,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> (Self, Option<String>) {
        let content = match read_bounded(file, MAX_FILE) {
            Ok(content) => Ok(content.unwrap_or_else(|| b"{}".to_vec())),
            Err(error) => Err(crate::error::causes(&error)),
        };
        let parsed = content.and_then(|content| {
            // By way of an object: a list would be taken for the fields in their order.
            serde_json::from_slice::<serde_json::Map<_, _>>(&content)
                .and_then(|object| serde_json::from_value::<Self>(object.into()))
                .map_err(|error| format!("{} is ignored: {error}", file.display()))
        });
        let (mut settings, warning) = match parsed {
            Ok(settings) => (settings, None),
            Err(warning) => (Self::default(), Some(warning)),
        };
        let path = |name| environment(name).filter(|value| !value.is_empty());
        if let Some(runtime) = path("ROCFERRY_RUNTIME") {
            settings.runtime = Some(runtime.into());
        }
        for (name, place) in [
            ("ROCFERRY_FOLDER", &mut settings.folder),
            ("ROCFERRY_RUN_FOLDER", &mut settings.run_folder),
            ("ROCFERRY_TOPOLOGY", &mut settings.topology),
        ] {
            if let Some(value) = path(name) {
                *place = value.into();
            }
        }
        (settings, warning)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn file_environment_and_defaults() {
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("runc.json");
        let none = |_: &str| None;
        assert_eq!(Settings::read(&file, none), (Settings::default(), None));
        fs::write(&file, r#"{"runtime": "/usr/bin/crun", "folder": "/f"}"#).expect("file");
        let (settings, warning) = Settings::read(&file, none);
        assert_eq!(warning, None);
        assert_eq!(settings.runtime, Some("/usr/bin/crun".into()));
        assert_eq!(settings.folder, PathBuf::from("/f"));
        let (settings, _) = Settings::read(&file, |name| {
            (name == "ROCFERRY_RUNTIME").then(|| "/x/runc".into())
        });
        assert_eq!(settings.runtime, Some("/x/runc".into()));
    }

    #[test]
    fn a_broken_file_is_said_and_ignored() {
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("runc.json");
        for text in ["", "{", "[]", r#"{"runtme": "x"}"#, "\0"] {
            fs::write(&file, text).expect("file");
            let (settings, warning) = Settings::read(&file, |_| None);
            assert_eq!(settings, Settings::default(), "{text}");
            assert!(warning.is_some(), "{text}");
        }
        fs::remove_file(&file).expect("gone");
        fs::create_dir(&file).expect("in the way");
        let (_, warning) = Settings::read(&file, |_| None);
        assert!(warning.is_some());
    }
}
