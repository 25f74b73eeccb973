//! containerd's configuration: a runtime is added, and nothing else changes.
//!
//! The runtime is a copy of the one that containers get by default, with our wrapper in place of the program, and
//! with the pod's annotations passed on. It goes into the main file: a file of its own, imported from there, would
//! replace whole sections in containerd 1.7. What containerd itself makes of the result is compared with what it made
//! of the file before.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table};

use super::change::Change;
use super::error::InstallError;
use super::file::Content;
use super::host::Host;
use super::plan::{RUNTIME, utf8};
use super::put::put;
use super::record::Record;

/// The section with the runtimes, in the versions 2 and 3 of the file.
const SECTIONS: [(i64, &str); 2] = [
    (2, "io.containerd.grpc.v1.cri"),
    (3, "io.containerd.cri.v1.runtime"),
];
/// The shim that works with the wrapper.
const SHIM: &str = "io.containerd.runc.v2";
/// Annotations that the wrapper needs to see.
const ANNOTATIONS: &str = "rocferry.dev/*";

/// What there is to do.
#[derive(Debug)]
pub(super) struct Containerd<'a> {
    pub(super) host: &'a Host,
    /// The program.
    pub(super) program: PathBuf,
    /// Its main file.
    pub(super) config: &'a Path,
    /// Folder with the wrappers.
    pub(super) prefix: &'a Path,
}

impl Containerd<'_> {
    /// Adds the runtime.
    pub(super) fn add(&self, record: &mut Record) -> Result<(), InstallError> {
        let before = self.dump()?;
        let real = self.host.real(self.config);
        let found = Content::read(&real)?;
        let (text, mode) = match &found {
            Some(Content::File { bytes, mode }) => (self.text(bytes)?, *mode),
            Some(Content::Link(_)) => {
                return Err(
                    self.damaged("it is a link: name the file itself with --containerd-config")
                );
            }
            None => (format!("version = {}\n", version(&before)), 0o644),
        };
        let entry = self.entry(&before)?;
        let new = Content::File {
            bytes: self.with(&text, &entry)?.into_bytes(),
            mode,
        };
        match &found {
            Some(found) => self.replace(record, found, &new)?,
            None => drop(put(self.host, record, self.config, &new)?),
        }
        let difference = match self.dump() {
            Ok(after) => difference("", &without(before), &without(after.clone())).or_else(|| {
                runtimes(&after)?
                    .get(RUNTIME)
                    .is_none()
                    .then(|| format!("it has no runtime {RUNTIME}"))
            }),
            Err(error) => Some(error.to_string()),
        };
        let Some(difference) = difference else {
            return Ok(());
        };
        let undone = match record.of(self.config).cloned() {
            Some(change) => super::take::take(self.host, record, &change),
            None => Ok(None),
        };
        // What was found first is what is told.
        if let Err(error) = undone {
            tracing::error!(
                file = %self.config.display(),
                error = crate::error::causes(&error),
                "The file could not be put back; `rocferry-agent uninstall` tries again"
            );
        }
        Err(InstallError::Differs { difference })
    }

    /// Puts the file in the place of another one, which is kept as it was before all installations.
    pub(super) fn replace(
        &self,
        record: &mut Record,
        found: &Content,
        new: &Content,
    ) -> Result<(), InstallError> {
        let real = self.host.real(self.config);
        let known = match record.of(self.config) {
            // There was none before the first installation.
            Some(Change::File { digest, .. }) if *digest == found.digest() => {
                return put(self.host, record, self.config, new).map(drop);
            }
            Some(Change::Containerd { digest, aside, .. }) if *digest == found.digest() => {
                Some(aside.clone())
            }
            _ => None,
        };
        if found == new && known.is_some() {
            return Ok(());
        }
        let aside = match known {
            Some(aside) => aside,
            // The site has changed it since: what it is without our runtime is what was there.
            None => record.keep(&real, &without_runtime(found))?,
        };
        record.set(Change::Containerd {
            path: self.config.to_owned(),
            digest: new.digest(),
            aside,
        })?;
        new.write(&real)
    }

    /// What containerd makes of its files.
    fn dump(&self) -> Result<Value, InstallError> {
        let mut arguments = vec!["config", "dump"];
        let config = utf8(self.config)?;
        if self.host.real(self.config).exists() {
            arguments.splice(0..0, ["--config", config]);
        }
        let text = self.host.run(&self.program, &arguments)?;
        toml_edit::de::from_str(&text).map_err(|error| InstallError::Program {
            program: format!("{} config dump", self.program.display()),
            reason: error.to_string(),
        })
    }

    /// The runtime: a copy of the default one.
    pub(super) fn entry(&self, dump: &Value) -> Result<Value, InstallError> {
        let runtimes = runtimes(dump)
            .ok_or_else(|| self.damaged("containerd runs without its part for Kubernetes"))?;
        let by_default = containers(dump).and_then(|part| part.get("default_runtime_name"));
        let by_default = by_default.and_then(Value::as_str).unwrap_or_default();
        let names = [by_default, "runc", "crun"];
        let mut named = names.iter().filter(|name| **name != RUNTIME);
        let found = named.find_map(|name| runtimes.get(*name)?.as_object());
        let mut entry = found.cloned().unwrap_or_default();
        let shim = entry.get("runtime_type").and_then(Value::as_str);
        if shim != Some(SHIM) {
            let reason =
                format!("its default runtime is none of {SHIM}, which is what can be wrapped");
            return Err(self.damaged(&reason));
        }
        let options = entry.get("options").and_then(Value::as_object);
        let mut options = options.cloned().unwrap_or_default();
        let wrapped = options.get("BinaryName").and_then(Value::as_str);
        let name = Path::new(wrapped.unwrap_or_default()).file_name();
        let crun = name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"crun"));
        let wrapper = self.prefix.join(match crun {
            true => "rocferry-crun",
            false => "rocferry-runc",
        });
        options.insert("BinaryName".to_owned(), utf8(&wrapper)?.into());
        entry.insert("options".to_owned(), options.into());
        let passed = entry.get("pod_annotations").and_then(Value::as_array);
        let mut passed = passed.cloned().unwrap_or_default();
        if !passed.iter().any(|one| one == ANNOTATIONS) {
            passed.push(ANNOTATIONS.into());
        }
        entry.insert("pod_annotations".to_owned(), passed.into());
        Ok(entry.into())
    }

    /// The file with the runtime.
    pub(super) fn with(&self, text: &str, entry: &Value) -> Result<String, InstallError> {
        let mut document: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| self.damaged(&error.to_string()))?;
        let version = document.get("version").and_then(Item::as_integer);
        let section = SECTIONS.iter().find(|(known, _)| Some(*known) == version);
        let (_, section) = section.ok_or_else(|| {
            self.damaged("it says neither version = 2 nor version = 3: `containerd config migrate` makes one that does")
        })?;
        let mut place = document.as_table_mut();
        for name in ["plugins", section, "containerd", "runtimes"] {
            let inner = place.entry(name).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
            place = inner
                .as_table_mut()
                .ok_or_else(|| self.damaged(&format!("{name} is no table of its own")))?;
        }
        let entry = toml_edit::ser::to_document(entry);
        let entry = entry.map_err(|error| self.damaged(&error.to_string()))?;
        place.insert(RUNTIME, Item::Table(tables(entry.into_table())));
        Ok(document.to_string())
    }

    fn text(&self, bytes: &[u8]) -> Result<String, InstallError> {
        String::from_utf8(bytes.to_vec()).map_err(|_| self.damaged("it is no text"))
    }

    fn damaged(&self, reason: &str) -> InstallError {
        InstallError::Damaged {
            path: self.config.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// Puts the file back as it was; takes the runtime alone out of a file that was changed since.
pub(super) fn undo(
    host: &Host,
    record: &Record,
    path: &Path,
    digest: &str,
    aside: &str,
) -> Result<Option<String>, InstallError> {
    let real = host.real(path);
    let before = record.kept(aside)?;
    let found = Content::read(&real)?;
    let Some(Content::File { bytes, mode }) = &found else {
        // Without the file there is no runtime in it.
        return Ok(None);
    };
    if found == before {
        return Ok(None);
    }
    if let (true, Some(before)) = (
        found.as_ref().is_some_and(|found| found.digest() == digest),
        before,
    ) {
        before.write(&real)?;
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes).ok();
    let Some(mut document) = text.and_then(|text| text.parse::<DocumentMut>().ok()) else {
        let path = path.display();
        return Ok(Some(format!(
            "{path} cannot be understood any more: take the runtime {RUNTIME} out of it by hand"
        )));
    };
    strip(&mut document);
    let bytes = document.to_string().into_bytes();
    Content::File { bytes, mode: *mode }.write(&real)?;
    Ok(None)
}

/// Takes our runtime out.
fn strip(document: &mut DocumentMut) {
    for (_, section) in SECTIONS {
        let runtimes = ["plugins", section, "containerd", "runtimes"]
            .iter()
            .try_fold(document.as_item_mut(), |item, name| {
                item.as_table_like_mut()?.get_mut(name)
            });
        if let Some(runtimes) = runtimes.and_then(Item::as_table_like_mut) {
            runtimes.remove(RUNTIME);
        }
    }
}

/// A file without our runtime; as it is, if it has none.
fn without_runtime(found: &Content) -> Content {
    let Content::File { bytes, mode } = found else {
        return found.clone();
    };
    let text = std::str::from_utf8(bytes).ok();
    let Some(mut document) = text.and_then(|text| text.parse::<DocumentMut>().ok()) else {
        return found.clone();
    };
    strip(&mut document);
    Content::File {
        bytes: document.to_string().into_bytes(),
        mode: *mode,
    }
}

/// Tables in tables, each with a header of its own.
fn tables(table: Table) -> Table {
    let mut made = Table::new();
    for (name, item) in table {
        let item = match item.into_table() {
            Ok(table) => Item::Table(tables(table)),
            Err(item) => item,
        };
        made.insert(&name, item);
    }
    made
}

fn version(dump: &Value) -> i64 {
    dump.get("version").and_then(Value::as_i64).unwrap_or(2)
}

fn containers(dump: &Value) -> Option<&Value> {
    let plugins = dump.get("plugins")?;
    let mut sections = SECTIONS.iter().rev();
    sections.find_map(|(_, section)| plugins.get(*section)?.get("containerd"))
}

fn runtimes(dump: &Value) -> Option<&Value> {
    containers(dump)?.get("runtimes")
}

/// Without our runtime.
fn without(mut dump: Value) -> Value {
    for (_, section) in SECTIONS {
        let pointer = format!("/plugins/{section}/containerd/runtimes");
        if let Some(Value::Object(runtimes)) = dump.pointer_mut(&pointer) {
            runtimes.remove(RUNTIME);
        }
    }
    dump
}

/// The first place where two differ.
fn difference(place: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys());
            names.into_iter().find_map(|name| {
                let place = format!("{place}.{name}");
                let of = |side: &Map<String, Value>| side.get(name).cloned().unwrap_or_default();
                difference(&place, &of(one), &of(other))
            })
        }
        _ if one == other => None,
        _ => Some(format!(
            "{} was {one} and would be {other}",
            place.trim_start_matches('.')
        )),
    }
}
