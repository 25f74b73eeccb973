//! The folder of a restored container: what has to be remembered until it is deleted. It does not outlive a reboot, as the
//! container does not.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::WrapperError;
use super::mounts::remove_tree;
use crate::ticket::{ContainerId, Key, read_bounded, write_whole};

const RECORD: &str = "record.json";

/// Name of the link to the bundle.
const BUNDLE: &str = "bundle";

/// Version of [`Record`].
const VERSION: u32 = 1;

const MAX_RECORD: u64 = 64 << 10;

/// That a container was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    /// Its ticket, as its files are named.
    ticket: String,
    /// `start` was told that it runs.
    pub(crate) started: bool,
}

impl Record {
    pub(crate) fn new(key: &Key) -> Self {
        Self {
            version: VERSION,
            ticket: key.stem(),
            started: false,
        }
    }

    /// The same, started.
    pub(crate) fn start(self) -> Self {
        Self {
            started: true,
            ..self
        }
    }

    /// Where its ticket lies.
    pub(crate) fn key(&self) -> Option<Key> {
        Key::from_stem(&self.ticket)
    }
}

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    root: PathBuf,
    parents: [PathBuf; 2],
}

impl Place {
    /// That of a container of a runtime that keeps its state in `root`.
    pub(crate) fn new(run_folder: &Path, root: Option<&OsStr>, id: &ContainerId) -> Self {
        let containers = run_folder.join("containers");
        let runtime = containers.join(flat(root.unwrap_or_default()));
        Self {
            root: runtime.join(format!("id_{id}")),
            parents: [containers, runtime],
        }
    }

    /// CRIU's work directory.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &Path {
        &self.root
    }

    /// Makes it anew, empty.
    pub(crate) fn make(&self) -> Result<(), WrapperError> {
        self.remove()?;
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).recursive(true);
        for folder in self.parents.iter().chain([&self.root, &self.work()]) {
            builder
                .create(folder)
                .map_err(WrapperError::file("create", folder))?;
        }
        Ok(())
    }

    /// Remembers the bundle of the restore that begins.
    pub(crate) fn remember(&self, bundle: &Path) -> Result<(), WrapperError> {
        // Relative to the folder in which the wrapper was started: another one is started elsewhere.
        let bundle = fs::canonicalize(bundle).map_err(WrapperError::file("find", bundle))?;
        let link = self.root.join(BUNDLE);
        symlink(bundle, &link).map_err(WrapperError::file("link", &link))
    }

    /// The bundle of the last restore.
    pub(crate) fn bundle(&self) -> Option<PathBuf> {
        fs::read_link(self.root.join(BUNDLE)).ok()
    }

    /// Removes it; none is as good.
    pub(crate) fn remove(&self) -> Result<(), WrapperError> {
        remove_tree(&self.root)
    }

    /// What is remembered, if the container was restored.
    pub(crate) fn record(&self) -> Result<Option<Record>, WrapperError> {
        let path = self.root.join(RECORD);
        let content = match read_bounded(&path, MAX_RECORD)? {
            Some(content) => content,
            None => return Ok(None),
        };
        let damaged = |reason| WrapperError::Damaged { path, reason };
        let record: Record = match serde_json::from_slice(&content) {
            Ok(record) => record,
            Err(error) => return Err(damaged(error.to_string())),
        };
        if record.version != VERSION {
            return Err(damaged(format!("it has version {}", record.version)));
        }
        Ok(Some(record))
    }

    /// Remembers it.
    pub(crate) fn write_record(&self, record: &Record) -> Result<(), WrapperError> {
        let text = serde_json::to_vec(record)
            .map_err(io::Error::other)
            .map_err(WrapperError::file("encode", self.root.join(RECORD)))?;
        Ok(write_whole(&self.root, RECORD, &text)?)
    }
}

/// A path as one name; no two paths have the same. One that is too long for a name fails where it is used.
fn flat(path: &OsStr) -> String {
    let mut name = "root".to_owned();
    for byte in path.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => name.push(char::from(*byte)),
            b'/' => name.push('_'),
            _ => name += &format!("%{byte:02x}"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_made_read_and_removed() {
        let dir = tempfile::tempdir().expect("folder");
        let id = "c".parse().expect("id");
        let place = Place::new(dir.path(), Some(OsStr::new("/run/runc")), &id);
        assert_eq!(place.record().expect("none"), None);
        place.remove().expect("none");
        place.make().expect("made");
        let mut record = Record::new(&Key::Container(id.clone()));
        place.write_record(&record).expect("written");
        assert_eq!(place.record().expect("read"), Some(record.clone()));
        assert_eq!(record.key(), Some(Key::Container(id.clone())));
        assert_eq!(place.bundle(), None);
        place.remember(dir.path()).expect("written");
        let bundle = fs::canonicalize(dir.path()).expect("there");
        assert_eq!(place.bundle(), Some(bundle));
        record.started = true;
        place.write_record(&record).expect("written");
        assert_eq!(place.record().expect("read"), Some(record));
        // Another runtime's container of the same id is another one.
        let other = Place::new(dir.path(), None, &id);
        assert_eq!(other.record().expect("none"), None);
        place.make().expect("made anew");
        assert_eq!(place.record().expect("none"), None);
        fs::write(place.folder().join(RECORD), "{}").expect("damage");
        place.record().expect_err("damaged");
    }

    proptest! {
        #[test]
        fn flat_names_are_safe_and_differ(one in "[/a-c_%.\\x00ä]{0,8}", two in "[/a-c_%.\\x00ä]{0,8}") {
            let (flat_one, flat_two) = (flat(OsStr::new(&one)), flat(OsStr::new(&two)));
            prop_assert!(!flat_one.contains('/') && flat_one.starts_with("root"));
            prop_assert_eq!(one == two, flat_one == flat_two);
        }
    }
}
