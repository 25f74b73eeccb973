//! A bundle's `config.json`, as far as it matters here. What is not known stays as it is.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::error::WrapperError;
use crate::ticket::{read_bounded, write_whole};

/// Far more than the largest specification.
const MAX_FILE: u64 = 32 << 20;

const NAME: &str = "config.json";

/// A container's specification.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    folder: PathBuf,
    /// As it was read.
    original: Vec<u8>,
    spec: Map<String, Value>,
}

impl Bundle {
    /// Reads it.
    ///
    /// # Errors
    /// No such file, or no JSON object in it.
    pub(crate) fn read(folder: &Path) -> Result<Self, WrapperError> {
        let path = folder.join(NAME);
        let original = read_bounded(&path, MAX_FILE)?.ok_or_else(|| {
            WrapperError::file("open", &path)(std::io::Error::from(std::io::ErrorKind::NotFound))
        })?;
        let spec = serde_json::from_slice(&original).map_err(|error| WrapperError::Damaged {
            path,
            reason: error.to_string(),
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            original,
            spec,
        })
    }

    /// The specification.
    pub(crate) fn spec(&self) -> &Map<String, Value> {
        &self.spec
    }

    /// The text of an annotation.
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.spec.get("annotations")?.get(name)?.as_str()
    }

    /// Writes it with an annotation.
    ///
    /// # Errors
    /// Every failure to write; then the old file is there.
    pub(crate) fn annotate(&self, name: &str, value: &str) -> Result<(), WrapperError> {
        let mut spec = self.spec.clone();
        let annotations = spec
            .entry("annotations")
            .or_insert_with(|| Value::Object(Map::new()));
        match annotations {
            Value::Object(annotations) => {
                annotations.insert(name.to_owned(), Value::String(value.to_owned()));
            }
            // `null`, as some write an empty map.
            other => {
                *other = Value::Object(Map::from_iter([(
                    name.to_owned(),
                    Value::String(value.to_owned()),
                )]));
            }
        }
        let text = serde_json::to_vec(&spec)
            .map_err(std::io::Error::other)
            .map_err(WrapperError::file("encode", self.folder.join(NAME)))?;
        Ok(write_whole(&self.folder, NAME, &text)?)
    }

    /// Writes it as it was read.
    ///
    /// # Errors
    /// Every failure to write.
    pub(crate) fn put_back(&self) -> Result<(), WrapperError> {
        Ok(write_whole(&self.folder, NAME, &self.original)?)
    }
}

#[cfg(test)]
impl Bundle {
    /// One that lies nowhere.
    pub(crate) fn of(spec: &str) -> Self {
        Self {
            folder: PathBuf::new(),
            original: spec.as_bytes().to_vec(),
            spec: serde_json::from_str(spec).expect("JSON"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_annotation_is_all_that_changes() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join(NAME);
        for (before, after) in [
            (
                r#"{"a":[1,18446744073709551615,{"b":null}]}"#,
                r#"{"a":[1,18446744073709551615,{"b":null}],"annotations":{"k":"v"}}"#,
            ),
            (r#"{"annotations":null}"#, r#"{"annotations":{"k":"v"}}"#),
            (
                r#"{"annotations":{"k":"old","x":"y"}}"#,
                r#"{"annotations":{"k":"v","x":"y"}}"#,
            ),
        ] {
            fs::write(&path, before).expect("file");
            let bundle = Bundle::read(dir.path()).expect("bundle");
            bundle.annotate("k", "v").expect("written");
            let now: Value = serde_json::from_slice(&fs::read(&path).expect("file")).expect("JSON");
            assert_eq!(now, serde_json::from_str::<Value>(after).expect("JSON"));
            bundle.put_back().expect("written");
            assert_eq!(fs::read(&path).expect("file"), before.as_bytes());
        }
    }

    #[test]
    fn what_is_no_specification_is_refused() {
        let dir = tempfile::tempdir().expect("folder");
        Bundle::read(dir.path()).expect_err("none");
        for text in ["", "[]", "7", "{", "null"] {
            fs::write(dir.path().join(NAME), text).expect("file");
            Bundle::read(dir.path()).expect_err(text);
        }
    }
}
