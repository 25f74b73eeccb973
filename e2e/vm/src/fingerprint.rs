//! Keys of cache entries: a short hash over everything that an entry is made from.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Collects the inputs of a cache entry. Each part is length-prefixed, so that moving a byte from one
/// part to the next changes the key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fingerprint(blake3::Hasher);

impl Fingerprint {
    pub(crate) fn new(recipe: &str) -> Self {
        Self::default().part(recipe)
    }

    pub(crate) fn part(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds names and contents of `files`, which lie under `dir`.
    pub(crate) fn files(mut self, dir: &Path, files: &[PathBuf]) -> Result<Self> {
        for file in files {
            let path = dir.join(file);
            let bytes =
                std::fs::read(&path).with_context(|| format!("Cannot read {}", path.display()))?;
            self = self.part(file.as_os_str().as_encoded_bytes()).part(bytes);
        }
        Ok(self)
    }

    /// The key: 16 hexadecimal digits.
    pub(crate) fn key(&self) -> String {
        self.0.finalize().to_hex()[..16].to_owned()
    }
}

/// Files below `dir` for which `wanted` holds, as sorted paths relative to it. Hidden ones are left out.
pub(crate) fn files_below(dir: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(sub) = todo.pop() {
        let at = dir.join(&sub);
        let entries =
            std::fs::read_dir(&at).with_context(|| format!("Cannot list {}", at.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = sub.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                todo.push(path);
            } else if wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        let a = Fingerprint::new("r").part("ab").part("c").key();
        let b = Fingerprint::new("r").part("a").part("bc").key();
        assert_ne!(a, b);
        assert_eq!(a.len(), 16);
        assert_eq!(a, Fingerprint::new("r").part("ab").part("c").key());
    }

    #[test]
    fn a_renamed_file_changes_the_key() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.c"), "x").unwrap();
        std::fs::write(dir.path().join("b.c"), "x").unwrap();
        std::fs::write(dir.path().join("b.o"), "x").unwrap();
        let files = files_below(dir.path(), &|p| p.extension().is_some_and(|e| e == "c")).unwrap();
        assert_eq!(files, [PathBuf::from("a.c"), PathBuf::from("b.c")]);
        let a = Fingerprint::new("r")
            .files(dir.path(), &files[..1])
            .unwrap()
            .key();
        let b = Fingerprint::new("r")
            .files(dir.path(), &files[1..])
            .unwrap()
            .key();
        assert_ne!(a, b);
    }
}
