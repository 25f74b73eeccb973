//! A container's specification: the `config.json` of its bundle. What is not known in it stays as it is.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use thiserror::Error;

use crate::ticket::{TicketError, read_bounded};

/// Name of the file in a bundle.
pub const CONFIG: &str = "config.json";

/// Far more than the largest specification, in bytes.
const MAX_FILE: u64 = 32 << 20;

/// No specification.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The file cannot be read.
    #[error("Cannot read {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file makes no sense.
    #[error("{} makes no sense: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The specification of a bundle.
#[derive(Clone, Debug)]
pub struct Spec {
    folder: PathBuf,
    /// As it was read.
    original: Vec<u8>,
    content: Map<String, Value>,
}

/// A mount of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Where it is in the container.
    pub destination: &'a str,
    /// Kind of file system: `bind` for any bind mount, as runtimes go by the options, whatever the type says.
    pub kind: &'a str,
    /// What is mounted there, if that is said.
    pub source: Option<&'a str>,
}

impl Spec {
    /// Reads that of a bundle.
    ///
    /// # Errors
    /// No such file, one that is too large, or no JSON object in it.
    pub fn read(bundle: &Path) -> Result<Self, SpecError> {
        Self::read_file(&bundle.join(CONFIG))
    }

    /// Reads one under another name.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_file(path: &Path) -> Result<Self, SpecError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| SpecError::File {
            path: path.to_owned(),
            source,
        };
        let original = match read_bounded(path, MAX_FILE) {
            Ok(Some(original)) => original,
            Ok(None) => return Err(failed(io::Error::from(io::ErrorKind::NotFound).into())),
            Err(TicketError::File { source, .. }) => return Err(failed(source.into())),
            Err(error) => return Err(failed(error.into())),
        };
        Self::parse_file(path, original)
    }

    /// One that was read already, of the bundle in this folder.
    ///
    /// # Errors
    /// No JSON object.
    pub fn parse(bundle: &Path, original: Vec<u8>) -> Result<Self, SpecError> {
        Self::parse_file(&bundle.join(CONFIG), original)
    }

    fn parse_file(path: &Path, original: Vec<u8>) -> Result<Self, SpecError> {
        let content = serde_json::from_slice(&original).map_err(|error| SpecError::Damaged {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            folder: path.parent().unwrap_or(Path::new("/")).to_owned(),
            original,
            content,
        })
    }

    /// All of it.
    #[must_use]
    pub const fn content(&self) -> &Map<String, Value> {
        &self.content
    }

    /// All of it.
    #[must_use]
    pub fn into_value(self) -> Value {
        Value::Object(self.content)
    }

    /// The folder of the bundle.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file as it was read.
    #[must_use]
    pub fn original(&self) -> &[u8] {
        &self.original
    }

    /// The text of an annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.content.get("annotations")?.get(name)?.as_str()
    }

    /// The part of that name in the object of this name.
    #[must_use]
    pub fn part(&self, object: &str, name: &str) -> Option<&Value> {
        self.content.get(object)?.get(name)
    }

    /// Its mounts, in their order. What makes no sense is left out: the runtime refuses it.
    pub fn mounts(&self) -> impl DoubleEndedIterator<Item = Mount<'_>> {
        let mounts = self.content.get("mounts").and_then(Value::as_array);
        mounts.into_iter().flatten().filter_map(|mount| {
            Some(Mount {
                destination: mount.get("destination")?.as_str()?,
                kind: kind(mount),
                source: mount.get("source").and_then(Value::as_str),
            })
        })
    }

    /// What is mounted at this place in the container: the last one counts.
    #[must_use]
    pub fn mount_at(&self, destination: &str) -> Option<Mount<'_>> {
        let destination = plain(destination);
        let mut mounts = self.mounts().rev();
        mounts.find(|mount| plain(mount.destination) == destination)
    }

    /// Where its cgroup is to be; `None` if it does not say, or leaves it to where the runtime is.
    #[must_use]
    pub fn cgroup(&self) -> Option<CgroupPlace<'_>> {
        let path = self.part("linux", "cgroupsPath")?.as_str()?;
        if path.starts_with('/') {
            return Some(CgroupPlace::Path(path));
        }
        let mut words = path.split(':');
        let (_slice, prefix, name) = (words.next()?, words.next()?, words.next()?);
        match (words.next(), name.is_empty()) {
            (None, false) => Some(CgroupPlace::Systemd { prefix, name }),
            _ => None,
        }
    }

    /// The root file system, as a path of the host.
    ///
    /// # Errors
    /// It names none.
    pub fn root(&self) -> Result<PathBuf, SpecError> {
        let path = self.part("root", "path").and_then(Value::as_str);
        match path.filter(|path| !path.is_empty()) {
            Some(path) => Ok(self.folder.join(path)),
            None => Err(SpecError::Damaged {
                path: self.folder.join(CONFIG),
                reason: "it has no root.path".to_owned(),
            }),
        }
    }
}

/// What `linux.cgroupsPath` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupPlace<'a> {
    /// This path below the root of the hierarchy.
    Path(&'a str),
    /// A unit that systemd makes (`SLICE:PREFIX:NAME`). Runtimes take the words for a path unless they are told.
    Systemd {
        /// Beginning of the scope's name.
        prefix: &'a str,
        /// The rest of it; or the name of a slice.
        name: &'a str,
    },
}

/// The kind of a mount.
fn kind(mount: &Value) -> &str {
    let options = mount.get("options").and_then(Value::as_array);
    let mut options = options.into_iter().flatten().filter_map(Value::as_str);
    if options.any(|option| matches!(option, "bind" | "rbind")) {
        return "bind";
    }
    mount.get("type").and_then(Value::as_str).unwrap_or("bind")
}

/// A path without what does not matter in it.
pub(crate) fn plain(path: &str) -> String {
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    parts.fold(String::new(), |path, part| path + "/" + part)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn spec(text: &str) -> Spec {
        Spec::parse(Path::new("/b"), text.as_bytes().to_vec()).expect("JSON")
    }

    #[test]
    fn a_relative_root_is_in_the_bundle() {
        let root = |text| spec(text).root();
        let path = root(r#"{"root": {"path": "rootfs"}}"#).expect("a path");
        assert_eq!(path, Path::new("/b/rootfs"));
        let path = root(r#"{"root": {"path": "/elsewhere"}}"#).expect("a path");
        assert_eq!(path, Path::new("/elsewhere"));
        for none in ["{}", r#"{"root": {"path": ""}}"#, r#"{"root": 7}"#] {
            root(none).expect_err(none);
        }
    }

    #[test]
    fn the_last_mount_of_a_place_counts() {
        let spec = spec(
            r#"{"mounts":[{"destination":"/data","type":"tmpfs","source":"tmpfs"},
                {"destination":"//data/","type":"none","source":"/x","options":["rbind"]}, 7, {"destination":7}]}"#,
        );
        let found = spec.mount_at("/data").expect("there");
        assert_eq!((found.kind, found.source), ("bind", Some("/x")));
        assert_eq!(spec.mounts().count(), 2);
        assert_eq!(spec.mount_at("/dat"), None);
    }

    #[test]
    fn what_is_no_specification_is_refused() {
        let dir = tempfile::tempdir().expect("folder");
        Spec::read(dir.path()).expect_err("none");
        for text in ["", "[]", "7", "{", "null"] {
            fs::write(dir.path().join(CONFIG), text).expect("file");
            Spec::read(dir.path()).expect_err(text);
        }
        fs::write(dir.path().join(CONFIG), " ".repeat(33 << 20)).expect("file");
        Spec::read(dir.path()).expect_err("too large");
        fs::remove_file(dir.path().join(CONFIG)).expect("gone");
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(CONFIG)).expect("link");
        Spec::read(dir.path()).expect_err("a link");
    }

    #[test]
    fn both_drivers_say_where_the_cgroup_is_to_be() {
        let of = |linux: &str| {
            let text = format!(r#"{{"linux":{linux}}}"#);
            let spec = Spec::parse(Path::new(""), text.into_bytes()).expect("JSON");
            spec.cgroup().map(|place| format!("{place:?}"))
        };
        for (linux, place) in [
            (
                r#"{"cgroupsPath":"kubepods-podu.slice:cri-containerd:a"}"#,
                r#"Systemd { prefix: "cri-containerd", name: "a" }"#,
            ),
            (
                r#"{"cgroupsPath":":libpod:a"}"#,
                r#"Systemd { prefix: "libpod", name: "a" }"#,
            ),
            (
                r#"{"cgroupsPath":"/kubepods/podu/a"}"#,
                r#"Path("/kubepods/podu/a")"#,
            ),
            (
                r#"{"cgroupsPath":"/odd:name:here"}"#,
                r#"Path("/odd:name:here")"#,
            ),
        ] {
            assert_eq!(of(linux).as_deref(), Some(place));
        }
        for none in [
            "{}",
            r#"{"cgroupsPath":""}"#,
            r#"{"cgroupsPath":"below/mine"}"#,
            r#"{"cgroupsPath":"a:b:"}"#,
            r#"{"cgroupsPath":"a:b:c:d"}"#,
            r#"{"cgroupsPath":7}"#,
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
