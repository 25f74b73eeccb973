//! Forms of output.

use clap::ValueEnum;
use serde::Serialize;

use crate::error::Error;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people; it may change
    Table,
    /// JSON, for scripts
    Json,
    /// The same as YAML
    Yaml,
}

/// The answer in the form that is asked for.
pub(crate) fn render<T: Serialize + ?Sized>(
    format: Format,
    value: &T,
    table: impl FnOnce() -> String,
) -> Result<String, Error> {
    match format {
        Format::Table => Ok(table()),
        Format::Json => to_json(value),
        Format::Yaml => to_yaml(value),
    }
}

/// JSON with a line break at the end.
pub(crate) fn to_json(value: &(impl Serialize + ?Sized)) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|error| Error::Write {
        reason: error.to_string(),
    })
}

/// YAML with a line break at the end. The only place that knows the library.
pub(crate) fn to_yaml(value: &(impl Serialize + ?Sized)) -> Result<String, Error> {
    let text = serde_saphyr::to_string(&value);
    text.map(|text| text.trim_end().to_owned() + "\n")
        .map_err(|error| Error::Write {
            reason: error.to_string(),
        })
}
