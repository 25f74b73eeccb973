//! A bundle whose `config.json` gets an annotation for a restore.

use std::path::Path;

use serde_json::{Map, Value};

use super::error::WrapperError;
use crate::spec::{CONFIG, Spec};
use crate::ticket::write_whole;

/// A bundle.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(Spec);

impl Bundle {
    /// Reads its specification.
    ///
    /// # Errors
    /// No such file, or no JSON object in it.
    pub(crate) fn read(folder: &Path) -> Result<Self, WrapperError> {
        Ok(Self(Spec::read(folder)?))
    }

    /// The specification.
    pub(crate) const fn spec(&self) -> &Spec {
        &self.0
    }

    /// The text of an annotation.
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.0.annotation(name)
    }

    /// Writes it with an annotation.
    ///
    /// # Errors
    /// Every failure to write; then the old file is there.
    pub(crate) fn annotate(&self, name: &str, value: &str) -> Result<(), WrapperError> {
        let mut spec = self.0.content().clone();
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
        let folder = self.0.folder();
        let text = serde_json::to_vec(&spec)
            .map_err(std::io::Error::other)
            .map_err(WrapperError::file("encode", folder.join(CONFIG)))?;
        Ok(write_whole(folder, CONFIG, &text)?)
    }

    /// Writes it as it was read.
    ///
    /// # Errors
    /// Every failure to write.
    pub(crate) fn put_back(&self) -> Result<(), WrapperError> {
        Ok(write_whole(self.0.folder(), CONFIG, self.0.original())?)
    }
}

#[cfg(test)]
impl Bundle {
    /// One that lies nowhere.
    pub(crate) fn of(spec: &str) -> Self {
        Self(Spec::parse(Path::new(""), spec.as_bytes().to_vec()).expect("JSON"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_annotation_is_all_that_changes() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join(CONFIG);
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
}
