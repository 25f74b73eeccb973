//! The simulator's kernel module, built for the machines' kernel.

use crate::fingerprint::{Fingerprint, files_below};
use crate::images::Lab;
use crate::source_root;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

impl Lab {
    /// Builds `e2e/kfd-sim` and returns its `amdgpu.ko`. Cached by the sources' contents.
    ///
    /// # Errors
    /// When it does not compile: what the compiler said.
    pub fn kfd_sim(&self) -> Result<PathBuf> {
        self.kernel_module(&source_root().join("e2e/kfd-sim"), "amdgpu")
    }

    /// Builds an out-of-tree module from a folder with a Kbuild or Makefile.
    ///
    /// # Errors
    /// When it does not compile: what the compiler said.
    pub fn kernel_module(&self, source_dir: &Path, name: &str) -> Result<PathBuf> {
        let files = files_below(source_dir, &is_source)
            .with_context(|| format!("No sources of module {name}"))?;
        let kernel = self.kernel()?;
        let key = Fingerprint::new("module 1")
            .part(kernel.key())
            .files(source_dir, &files)?
            .key();
        let entry = format!("module-{name}");
        let ko = format!("{name}.ko");
        let dir = self.cache().entry(&entry, &key, |dir, progress| {
            progress.step(&format!("compiling for {}", kernel.version()), || {
                // A build writes beside its sources, so it gets a copy.
                let copy = dir.join("src");
                for file in &files {
                    let to = copy.join(file);
                    fs::create_dir_all(to.parent().unwrap_or(&copy))?;
                    fs::copy(source_dir.join(file), &to)?;
                }
                let script = format!(
                    "make -s -j2 -C /lib/modules/{}/build M=/build modules",
                    kernel.version()
                );
                let mut make = kernel.inside(&[(&copy, "/build")], &script);
                make.stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped());
                let out = crate::leash::spawn(make)?.wait_with_output()?;
                let said = String::from_utf8_lossy(&out.stderr);
                if !out.status.success() {
                    let more = String::from_utf8_lossy(&out.stdout);
                    bail!("Module {name} does not compile:\n{more}{said}");
                }
                eprint!("{said}");
                fs::copy(copy.join(&ko), dir.join(&ko))
                    .with_context(|| format!("The build made no {ko}"))?;
                fs::remove_dir_all(&copy)?;
                Ok(())
            })
        })?;
        Ok(dir.join(ko))
    }
}

fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Left by builds in the source folder: NAME.mod.c
    if name.ends_with(".mod.c") {
        return false;
    }
    matches!(name.as_ref(), "Kbuild" | "Makefile")
        || path
            .extension()
            .is_some_and(|e| e == "c" || e == "h" || e == "S")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_products_are_no_sources() {
        let yes = ["a.c", "sub/b.h", "Kbuild", "Makefile"];
        let no = ["amdgpu.mod.c", "a.o", "amdgpu.ko", "Module.symvers"];
        assert!(yes.iter().all(|p| is_source(Path::new(p))));
        assert!(!no.iter().any(|p| is_source(Path::new(p))));
    }
}
