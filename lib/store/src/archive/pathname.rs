//! Names of members: one spelling for each, and none that leads out.

use super::{Refusal, WHITEOUT};

/// Largest length of a path, in bytes (`PATH_MAX`).
pub(super) const MAX_PATH: usize = 4096;
/// Largest length of a part of a path, in bytes (`NAME_MAX`).
const MAX_PART: usize = 255;

/// A name as it is to be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pathname<'a> {
    /// The path; empty for the root itself (`./`).
    pub(super) path: &'a str,
    /// It ended with `/`.
    pub(super) slash: bool,
}

/// Takes a name as archives have it: leading `./` and one trailing `/` mean nothing.
pub(super) fn parse(name: &[u8]) -> Result<Pathname<'_>, Refusal> {
    if name.is_empty() {
        return Err(Refusal::Unnamed);
    }
    let path = std::str::from_utf8(name).map_err(|_| Refusal::NotText)?;
    if path.starts_with('/') {
        return Err(Refusal::Absolute);
    }
    let path = if path == "." { "./" } else { path };
    let (path, root) = match path.strip_prefix("./") {
        Some("") => {
            return Ok(Pathname {
                path: "",
                slash: true,
            });
        }
        Some(path) => (path, true),
        None => (path, false),
    };
    let (path, slash) = match path.strip_suffix('/') {
        Some(path) => (path, true),
        None => (path, false),
    };
    if root && path.is_empty() {
        return Err(Refusal::Detour);
    }
    check(path)?;
    Ok(Pathname { path, slash })
}

/// Checks a path as manifests have it.
pub(super) fn check(path: &str) -> Result<(), Refusal> {
    if path.is_empty() {
        return Err(Refusal::Unnamed);
    }
    if path.starts_with('/') {
        return Err(Refusal::Absolute);
    }
    let too_long = |bytes, limit| Err(Refusal::PathLength { bytes, limit });
    if path.len() > MAX_PATH {
        return too_long(path.len(), MAX_PATH);
    }
    if path.contains('\0') {
        return Err(Refusal::ZeroByte);
    }
    for part in path.split('/') {
        match part {
            ".." => return Err(Refusal::Upwards),
            "" | "." => return Err(Refusal::Detour),
            part if part.starts_with(WHITEOUT) => return Err(Refusal::Whiteout),
            part if part.len() > MAX_PART => return too_long(part.len(), MAX_PART),
            _ => {}
        }
    }
    Ok(())
}
