//! Deleted files of a root file system: a list of paths for Podman and CRI-O, whiteouts for containerd.

use super::pathname;
use super::{Refusal, WHITEOUT, json};

/// Reads the list. The paths come without their leading `/`.
pub(super) fn parse(data: &[u8]) -> Result<Vec<String>, Refusal> {
    if data.is_empty() {
        return Ok(Vec::new());
    }
    let list: Option<Vec<String>> = json::parse(data)?;
    let mut paths = Vec::new();
    for path in list.unwrap_or_default() {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Err(Refusal::Unnamed);
        }
        pathname::check(path)?;
        paths.push(path.to_owned());
    }
    Ok(paths)
}

/// Writes the list: sorted, each path once, with a leading `/`.
pub(super) fn list(mut paths: Vec<String>) -> Vec<u8> {
    paths.sort();
    paths.dedup();
    let paths: Vec<String> = paths.iter().map(|path| format!("/{path}")).collect();
    serde_json::Value::from(paths).to_string().into_bytes()
}

/// The name that stands for the deletion of a path.
pub(super) fn whiteout(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((above, name)) => format!("{above}/{WHITEOUT}{name}"),
        None => format!("{WHITEOUT}{path}"),
    }
}

/// What the name of a member means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The member itself.
    Member,
    /// This path is deleted.
    Deleted(String),
    /// All that was in this directory is deleted, or something that only one file system knows.
    Special,
}

/// Whether a name stands for a deletion.
pub(super) fn meaning(name: &[u8]) -> Result<Meaning, Refusal> {
    let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let Some(deleted) = last.strip_prefix(WHITEOUT.as_bytes()) else {
        return Ok(Meaning::Member);
    };
    if deleted.starts_with(WHITEOUT.as_bytes()) {
        return Ok(Meaning::Special);
    }
    let above = name.get(..name.len() - last.len()).unwrap_or_default();
    let path = [above, deleted].concat();
    let path = pathname::parse(&path)?;
    if path.path.is_empty() || path.slash {
        return Err(Refusal::Unnamed);
    }
    Ok(Meaning::Deleted(path.path.to_owned()))
}
