//! Lines of a `properties` file.

use std::collections::HashMap;
use std::path::Path;

use crate::ReadError;

/// The numeric properties of one file that somebody may ask for, with the line of each.
pub(crate) struct Properties<'a> {
    path: &'a Path,
    values: HashMap<&'static str, (usize, u64)>,
}

impl<'a> Properties<'a> {
    /// Takes the lines `name value` whose name is one of `wanted`. Other lines may look like anything:
    /// newer kernels add properties. A wanted one must be an unsigned decimal number and come once.
    pub(crate) fn parse(
        path: &'a Path,
        text: &[u8],
        wanted: &'static [&'static str],
    ) -> Result<Self, ReadError> {
        let mut values = HashMap::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words
                .next()
                .and_then(|name| wanted.iter().find(|w| **w == name))
            else {
                continue;
            };
            let malformed = |reason| ReadError::Malformed {
                path: path.to_owned(),
                line: index + 1,
                text: shorten(&line),
                reason,
            };
            let value = match (words.next(), words.next()) {
                (Some(value), None) => parse_decimal(value),
                _ => None,
            };
            let value = value.ok_or_else(|| malformed("expected a name and an unsigned number"))?;
            if values.insert(*name, (index + 1, value)).is_some() {
                return Err(malformed("property given twice"));
            }
        }
        Ok(Self { path, values })
    }

    /// A 64 bit property, if present.
    pub(crate) fn u64(&self, name: &'static str) -> Option<u64> {
        self.values.get(name).map(|(_, value)| *value)
    }

    /// A 32 bit property, if present.
    pub(crate) fn u32(&self, name: &'static str) -> Result<Option<u32>, ReadError> {
        let Some(&(line, value)) = self.values.get(name) else {
            return Ok(None);
        };
        u32::try_from(value)
            .map(Some)
            .map_err(|_| ReadError::Malformed {
                path: self.path.to_owned(),
                line,
                text: format!("{name} {value}"),
                reason: "number too large",
            })
    }

    /// A 32 bit property without which the node makes no sense.
    pub(crate) fn required(&self, name: &'static str) -> Result<u32, ReadError> {
        self.u32(name)?.ok_or_else(|| ReadError::Missing {
            path: self.path.to_owned(),
            name,
        })
    }
}

/// Digits only: `str::parse` would take a sign as well.
pub(crate) fn parse_decimal(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Text out of a damaged file, short enough for a message.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}
