//! How names look where they are printed.

use std::fmt::Display;

use rocferry_image::manifest::DataKeyId;
use serde::Serializer;

/// As text.
pub(crate) fn display<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// As text, or nothing.
pub(crate) fn display_if<T: Display, S: Serializer>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

/// As a list of texts.
pub(crate) fn display_all<'a, T, C, S>(values: &'a C, to: S) -> Result<S::Ok, S::Error>
where
    T: Display + 'a,
    &'a C: IntoIterator<Item = &'a T>,
    S: Serializer,
{
    to.collect_seq(values.into_iter().map(ToString::to_string))
}

/// What seals something.
pub(crate) fn data_key_name(key: Option<DataKeyId>) -> String {
    key.map_or_else(|| "no key".to_owned(), |key| format!("data key {key}"))
}
