//! The plugin under test, built so that one file loads in every userland.
//!
//! The oldest userland, Debian 12, has glibc 2.36. Built on a host with a newer one the plugin may need
//! newer symbol versions; then it is linked once more against Debian 12's library from a small sysroot.

use crate::images::Lab;
use crate::source_root;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// glibc of Debian 12.
const OLDEST: (u32, u32) = (2, 36);

/// Set to 1: link against the sysroot even where the host's own library would do.
const FORCE: &str = "ROCFERRY_FORCE_SYSROOT";

const TARGET: &str = "x86_64-unknown-linux-gnu";

impl Lab {
    /// Builds `rocferry-plugin` in release mode and returns the shared object, whose highest needed glibc
    /// version is checked.
    ///
    /// # Errors
    /// When it does not compile, or would not load in the oldest userland.
    pub fn plugin_so(&self) -> Result<PathBuf> {
        if std::env::var_os(FORCE).is_none_or(|v| v != "1") {
            let so = build(None)?;
            let needed = needed_glibc(&so)?;
            if needed <= OLDEST {
                return Ok(so);
            }
            eprintln!(
                "[plugin] needs glibc {}.{}, linking against {}.{}",
                needed.0, needed.1, OLDEST.0, OLDEST.1
            );
        }
        let so = build(Some(&self.sysroot()?))?;
        let needed = needed_glibc(&so)?;
        if needed > OLDEST {
            bail!(
                "{} needs glibc {}.{}, the oldest userland has {}.{}",
                so.display(),
                needed.0,
                needed.1,
                OLDEST.0,
                OLDEST.1
            );
        }
        Ok(so)
    }
}

fn build(sysroot: Option<&Path>) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(source_root());
    command.args(["build", "--release", "--package", "rocferry-plugin"]);
    command.arg("--message-format=json-render-diagnostics");
    if let Some(sysroot) = sysroot {
        // With a target given, the flags do not reach build scripts and procedural macros, which run here.
        command.args(["--target", TARGET]);
        let flags = format!("-Clink-arg=--sysroot={}", sysroot.display());
        command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", flags);
    }
    let out = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("Cannot start cargo")?;
    if !out.status.success() {
        bail!("The plugin does not compile ({})", out.status);
    }
    artifact(&String::from_utf8_lossy(&out.stdout)).context("cargo built no libamdgpu_plugin.so")
}

/// The shared object among cargo's messages, one JSON object a line.
fn artifact(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|m| m["reason"] == "compiler-artifact")
        .filter_map(|m| m["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|f| f.as_str().map(PathBuf::from))
        .find(|f| f.file_name().is_some_and(|n| n == "libamdgpu_plugin.so"))
}

/// The highest glibc version that a dynamic object needs.
fn needed_glibc(object: &Path) -> Result<(u32, u32)> {
    let out = Command::new("readelf")
        .args(["--wide", "--version-info"])
        .arg(object)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .context("Cannot start readelf")?;
    if !out.status.success() {
        bail!("readelf cannot read {}", object.display());
    }
    highest_glibc(&String::from_utf8_lossy(&out.stdout))
        .with_context(|| format!("No glibc version in {}", object.display()))
}

/// `GLIBC_2.34`, `GLIBC_2.2.5`: only the first two numbers count. Newer tool chains also write markers
/// such as `GLIBC_ABI_DT_RELR`, which came with 2.36.
fn highest_glibc(text: &str) -> Option<(u32, u32)> {
    text.split("GLIBC_")
        .skip(1)
        .filter_map(|rest| {
            if rest.starts_with("ABI_DT_RELR") {
                return Some((2, 36));
            }
            let end = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let mut numbers = rest[..end].split('.').map(|n| n.parse().ok());
            Some((numbers.next()??, numbers.next()??))
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let text = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 5\n\
                    0x0020:   Name: GLIBC_2.34  Flags: none  Version: 4\n\
                    002:   2 (GLIBC_2.2.5)     3 (GCC_3.0)\n GLIBC_PRIVATE";
        assert_eq!(highest_glibc(text), Some((2, 34)));
        assert_eq!(
            highest_glibc("GLIBC_2.2.5, GLIBC_ABI_DT_RELR"),
            Some((2, 36))
        );
        assert_eq!(highest_glibc("nothing"), None);
    }

    #[test]
    fn the_object_is_found_among_messages() {
        let text = "{\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/libx.rlib\"]}\n\
                    not json\n\
                    {\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/libamdgpu_plugin.so\"]}\n";
        assert_eq!(
            artifact(text),
            Some(PathBuf::from("/t/libamdgpu_plugin.so"))
        );
        assert_eq!(artifact(""), None);
    }
}
