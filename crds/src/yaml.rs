//! YAML, as `kubectl apply` takes it.

use serde::Serialize;
use thiserror::Error;

/// A value that could not be written as YAML.
#[derive(Debug, Error)]
pub enum YamlError {
    /// It has no form in JSON.
    #[error("Cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// It has none in YAML.
    #[error("Cannot be written as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// Writes a value as one YAML document. Keys of objects come sorted, so that the same value always gives the same
/// text.
///
/// # Errors
/// [`YamlError`], for values that have no form in JSON or YAML.
pub fn to_yaml<T: Serialize>(value: &T) -> Result<String, YamlError> {
    let value = serde_json::to_value(value)?;
    Ok(serde_saphyr::to_string(&value)?)
}
