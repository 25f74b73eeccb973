//! A copy of the sources in which one place at a time is altered.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rocferry_vm::source_root;

/// The copy.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Brings the copy up to date. Files that are as they were keep their time, so that little is built anew.
    pub(super) fn copy(root: &Path) -> Result<Self> {
        let mut wanted = BTreeSet::new();
        copy_below(&source_root(), root, &mut wanted)?;
        remove_others(root, &wanted)?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// Where it lies.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Replaces a text that is in the file exactly once, until the answer is dropped.
    pub(super) fn alter(&self, file: &str, find: &str, replace: &str) -> Result<Altered> {
        let path = self.root.join(file);
        let original = fs::read_to_string(&path).with_context(|| format!("Cannot read {file}"))?;
        match original.matches(find).count() {
            1 => {}
            count => bail!("its text is {count} times in {file}, not once"),
        }
        fs::write(&path, original.replacen(find, replace, 1))?;
        Ok(Altered { path, original })
    }
}

/// An altered file; dropping it puts the original back.
pub(super) struct Altered {
    path: PathBuf,
    original: String,
}

impl Drop for Altered {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.original) {
            eprintln!("Error: cannot put {} back: {error}", self.path.display());
        }
    }
}

/// Build output and what begins with a dot are left out, but for `.cargo`.
fn is_source(name: &str) -> bool {
    name == ".cargo" || !(name.starts_with('.') || name == "target")
}

fn copy_below(from: &Path, to: &Path, wanted: &mut BTreeSet<PathBuf>) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("Cannot make {}", to.display()))?;
    wanted.insert(to.to_owned());
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(is_source) {
            continue;
        }
        let (path, copy, kind) = (entry.path(), to.join(&name), entry.file_type()?);
        if kind.is_dir() {
            copy_below(&path, &copy, wanted)?;
        } else if kind.is_file() {
            let bytes = fs::read(&path)?;
            if fs::read(&copy).ok().as_ref() != Some(&bytes) {
                fs::write(&copy, bytes)?;
            }
            wanted.insert(copy);
        }
    }
    Ok(())
}

fn remove_others(root: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name == "Cargo.lock") || wanted.contains(&path) {
            if path.is_dir() {
                remove_others(&path, wanted)?;
            }
        } else if path.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
