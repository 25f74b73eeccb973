//! `/etc/rocferry/agent.json`: what an administrator lets the agent of this node do. All of it optional.
//!
//! ```text
//! { "listen": "127.0.0.1:9559",
//!   "unsignedArchives": false,
//!   "archives": [{ "folder": "/var/lib/kubelet/checkpoints", "store": "file:///srv/checkpoints",
//!                  "tenant": "default", "identity": [], "recipients": [], "keyFile": [], "sign": "/etc/rocferry/sign.pem",
//!                  "afterwards": "keep" }] }
//! ```

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::error::Error;
use crate::ticket::read_bounded;

/// Where it is unless told otherwise.
pub(crate) const DEFAULT_FILE: &str = "/etc/rocferry/agent.json";

/// Far more than any.
const MAX_FILE: u64 = 1 << 20;

/// Where it is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct SettingsArgs {
    /// The administrator's settings; root's own, and none is as good
    #[arg(
        long = "settings",
        env = "ROCFERRY_SETTINGS",
        value_name = "FILE",
        default_value = DEFAULT_FILE
    )]
    file: PathBuf,
}

impl SettingsArgs {
    /// What it says.
    pub(crate) fn read(&self) -> Result<Settings, Error> {
        Settings::read(&self.file)
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

/// What it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Where the daemon tells of its health and its metrics.
    pub(crate) listen: Option<SocketAddr>,
    /// Archives, which nobody signs, may be restored when `--unsigned` asks for it.
    pub(crate) unsigned_archives: bool,
    /// Folders whose archives the daemon takes into a store.
    pub(crate) archives: Vec<ArchiveRule>,
}

/// A folder in which engines leave archives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ArchiveRule {
    /// The folder. Absolute.
    pub(crate) folder: PathBuf,
    /// URL of the store.
    pub(crate) store: String,
    /// The tenant's part of the store.
    #[serde(default = "default_tenant")]
    pub(crate) tenant: String,
    /// Files with age identities.
    #[serde(default)]
    pub(crate) identity: Vec<PathBuf>,
    /// Files with age recipients, for a store that is made.
    #[serde(default)]
    pub(crate) recipients: Vec<PathBuf>,
    /// Files with keys.
    #[serde(default)]
    pub(crate) key_file: Vec<PathBuf>,
    /// Key to sign the checkpoint with.
    #[serde(default)]
    pub(crate) sign: Option<PathBuf>,
    /// What becomes of an archive that was taken.
    #[serde(default)]
    pub(crate) afterwards: Afterwards,
}

fn default_tenant() -> String {
    "default".to_owned()
}

/// What becomes of an archive that was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// It stays.
    #[default]
    Keep,
    /// It is removed, so long after it was taken.
    DeleteAfter(Duration),
}

impl<'de> Deserialize<'de> for Afterwards {
    /// `keep`, `delete`, or `delete after 24h`.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.as_str() {
            "keep" => Ok(Self::Keep),
            "delete" => Ok(Self::DeleteAfter(Duration::ZERO)),
            _ => {
                let wanted = "keep, delete, or delete after TIME is expected";
                let time = text.strip_prefix("delete after ");
                let time = time.and_then(|time| crate::image::duration(time).ok());
                time.map(Self::DeleteAfter)
                    .ok_or_else(|| serde::de::Error::custom(wanted))
            }
        }
    }
}

impl Settings {
    /// Those of a file; nothing is allowed and nothing watched where there is none.
    ///
    /// A file that others than root can write, or that makes no sense, is an error: it must not be taken for an empty one.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Settings {
            path: path.to_owned(),
            reason,
        };
        let text =
            read_bounded(path, MAX_FILE).map_err(|error| wrong(crate::error::causes(&error)))?;
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let meta = path.symlink_metadata().map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let own = meta.uid() == rustix::process::geteuid().as_raw();
        if !own || meta.mode() & 0o022 != 0 {
            return Err(wrong(format!(
                "others can write it (owner {}, mode {:o})",
                meta.uid(),
                meta.mode() & 0o7777
            )));
        }
        let settings: Self =
            serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        for (index, rule) in settings.archives.iter().enumerate() {
            if !rule.folder.is_absolute() {
                let folder = rule.folder.display();
                return Err(wrong(format!("folder {folder} is not an absolute path")));
            }
            let before = settings.archives.get(..index).unwrap_or_default();
            if before.iter().any(|other| other.folder == rule.folder) {
                return Err(wrong(format!(
                    "folder {} is there twice",
                    rule.folder.display()
                )));
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn of(text: &str, mode: u32) -> Result<Settings, Error> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("agent.json");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
        Settings::read(&path)
    }

    #[test]
    fn without_a_file_nothing_is_allowed() {
        let none = Settings::read(Path::new("/nowhere/agent.json")).expect("none is as good");
        assert_eq!(none, Settings::default());
        assert!(!none.unsigned_archives);
        assert_eq!(of("{}", 0o600).expect("empty"), none);
    }

    #[test]
    fn a_rule_says_where_and_what_then() {
        let text = r#"{"unsignedArchives":true,"listen":"[::1]:7","archives":[
            {"folder":"/a","store":"file:///s"},
            {"folder":"/b","store":"s3://b/p","tenant":"t","sign":"/k","afterwards":"delete after 2h"},
            {"folder":"/c","store":"s3://b/p","afterwards":"delete"}]}"#;
        let settings = of(text, 0o644).expect("settings");
        assert!(settings.unsigned_archives);
        let afterwards: Vec<_> = settings
            .archives
            .iter()
            .map(|rule| rule.afterwards)
            .collect();
        let hours = Duration::from_secs(7200);
        assert_eq!(
            afterwards,
            [
                Afterwards::Keep,
                Afterwards::DeleteAfter(hours),
                Afterwards::DeleteAfter(Duration::ZERO)
            ]
        );
        assert_eq!(settings.archives[0].tenant, "default");
    }

    #[test]
    fn what_others_can_write_or_makes_no_sense_is_refused() {
        for (text, mode, reason) in [
            ("{}", 0o666, "others can write"),
            ("{}", 0o620, "others can write"),
            ("", 0o600, "EOF"),
            ("{\"unsigned\":true}", 0o600, "unknown field"),
            ("{\"listen\":\"everywhere\"}", 0o600, "socket address"),
            (
                r#"{"archives":[{"folder":"a","store":"s"}]}"#,
                0o600,
                "not an absolute",
            ),
            (
                r#"{"archives":[{"folder":"/a","store":"s"},{"folder":"/a","store":"t"}]}"#,
                0o600,
                "twice",
            ),
            (
                r#"{"archives":[{"folder":"/a","store":"s","afterwards":"sell"}]}"#,
                0o600,
                "delete after",
            ),
        ] {
            let error = crate::error::causes(&of(text, mode).expect_err(text));
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
