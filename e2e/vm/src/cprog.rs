//! Static C programs for the machines, compiled in the kernel's tree: with the headers of that kernel,
//! and without a need for static libraries on the host.

use crate::fingerprint::{Fingerprint, files_below};
use crate::images::Lab;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const FLAGS: &str =
    "-std=gnu11 -D_GNU_SOURCE -O2 -g -pipe -static -pthread -Wall -Wextra -Werror=implicit";

impl Lab {
    /// Compiles all `*.c` of a folder (not of its sub-folders) into one static program. Folders above
    /// `source_dir` cannot be included from. Cached by the contents of the `*.c` and `*.h` files.
    ///
    /// # Errors
    /// When it does not compile: what the compiler said.
    pub fn c_program(&self, source_dir: &Path, name: &str) -> Result<PathBuf> {
        let sources = files_below(source_dir, &|p| p.extension().is_some_and(|e| e == "c"))?;
        let sources: Vec<String> = sources
            .iter()
            .filter(|p| p.components().count() == 1)
            .map(|p| p.to_string_lossy().into_owned())
            .collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        self.c_program_from(source_dir, name, &sources)
    }

    /// Like [`Lab::c_program`], from the named files of the folder only.
    ///
    /// # Errors
    /// When it does not compile: what the compiler said.
    pub fn c_program_from(
        &self,
        source_dir: &Path,
        name: &str,
        sources: &[&str],
    ) -> Result<PathBuf> {
        if sources.is_empty() {
            bail!("No C sources in {}", source_dir.display());
        }
        let source_dir = source_dir
            .canonicalize()
            .with_context(|| format!("No folder {}", source_dir.display()))?;
        let kernel = self.kernel()?;
        let headers = files_below(&source_dir, &|p| p.extension().is_some_and(|e| e == "h"))?;
        let mut inputs: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
        inputs.extend(headers);
        let key = Fingerprint::new("program 1")
            .part(kernel.key())
            .part(FLAGS)
            .files(&source_dir, &inputs)?
            .key();
        let entry = format!("program-{name}");
        let dir = self.cache().entry(&entry, &key, |dir, progress| {
            progress.step("compiling", || {
                let quoted: Vec<String> = sources.iter().map(|s| format!("'{s}'")).collect();
                // The kernel's package brings a versioned compiler; `gcc` names the same one.
                let script = format!(
                    "cd /build; gcc {FLAGS} -o '/out/{name}' {}",
                    quoted.join(" ")
                );
                let mut cc = kernel.inside(&[(&source_dir, "/build"), (dir, "/out")], &script);
                cc.stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped());
                let out = crate::leash::spawn(cc)?.wait_with_output()?;
                let said = String::from_utf8_lossy(&out.stderr);
                if !out.status.success() {
                    bail!("{} does not compile:\n{said}", source_dir.display());
                }
                eprint!("{said}");
                Ok(())
            })
        })?;
        Ok(dir.join(name))
    }
}
