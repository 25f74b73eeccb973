//! Settings and credentials by the names that other tools use in the environment.

use std::collections::BTreeMap;
use std::fmt;

/// The process's environment, or what stands in for it where one process has several stores with credentials
/// of their own (the content of a Kubernetes Secret).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(Option<BTreeMap<String, String>>);

impl Variables {
    /// Those of the environment of this process, at the time of their use.
    #[must_use]
    pub const fn process() -> Self {
        Self(None)
    }

    /// These and no others.
    #[must_use]
    pub fn only(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(Some(pairs.into_iter().collect()))
    }

    /// Its value; an empty one counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let value = match &self.0 {
            Some(pairs) => pairs.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// All that are text and not empty.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let mut all: Vec<_> = match &self.0 {
            Some(pairs) => pairs.clone().into_iter().collect(),
            None => std::env::vars_os().filter_map(text).collect(),
        };
        all.retain(|(_, value)| !value.is_empty());
        all
    }
}

/// Names alone: values are secrets.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Variables::process()"),
            Some(pairs) => f
                .debug_tuple("Variables::only")
                .field(&pairs.keys())
                .finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_printed() {
        let pairs = [("AWS_SECRET_ACCESS_KEY".to_owned(), "hush".to_owned())];
        let variables = Variables::only(pairs);
        assert_eq!(
            variables.get("AWS_SECRET_ACCESS_KEY").as_deref(),
            Some("hush")
        );
        assert_eq!(variables.get("HOME"), None);
        let text = format!("{variables:?}");
        assert!(
            text.contains("AWS_SECRET_ACCESS_KEY") && !text.contains("hush"),
            "{text}"
        );
    }
}
