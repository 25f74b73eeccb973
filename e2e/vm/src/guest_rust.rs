//! Rust programs for the machines: the plugin under test and the scenarios, built so that one file runs in
//! every userland.
//!
//! The oldest userland, Debian 12, has glibc 2.36. Built on a host with a newer one a program may need
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
    /// Builds the plugin in release mode and returns the shared object.
    ///
    /// # Errors
    /// When it does not compile, or would not load in the oldest userland.
    pub fn plugin_so(&self) -> Result<PathBuf> {
        self.rust_for_guests(&PLUGIN)
    }

    /// Builds the program that runs the test cases in the machines.
    ///
    /// # Errors
    /// When it does not compile, or would not start in the oldest userland.
    pub fn scenarios(&self) -> Result<PathBuf> {
        self.rust_for_guests(&SCENARIOS)
    }

    /// Builds a program of the node agent's, without what only debuggers need, which is most of it. Unlike the others
    /// it runs in userlands alone whose glibc is as new as this machine's: its cases are for the newest CRIU.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn agent(&self, program: &'static str) -> Result<PathBuf> {
        let product = Product {
            package: "rocferry-agent",
            file: program,
            profile: "dev",
        };
        let file = build(&product, None)?;
        let stripped = file.with_extension("stripped");
        let status = Command::new("strip")
            .arg("--strip-debug")
            .arg("-o")
            .args([&stripped, &file])
            .stdin(Stdio::null())
            .status()
            .context("Cannot start strip")?;
        if !status.success() {
            bail!("strip does not take {} ({status})", file.display());
        }
        Ok(stripped)
    }

    fn rust_for_guests(&self, product: &Product) -> Result<PathBuf> {
        if std::env::var_os(FORCE).is_none_or(|v| v != "1") {
            let file = build(product, None)?;
            let needed = needed_glibc(&file)?;
            if needed <= OLDEST {
                return Ok(file);
            }
            eprintln!(
                "[{}] needs glibc {}.{}, linking against {}.{}",
                product.package, needed.0, needed.1, OLDEST.0, OLDEST.1
            );
        }
        let file = build(product, Some(&self.sysroot()?))?;
        let needed = needed_glibc(&file)?;
        if needed > OLDEST {
            bail!(
                "{} needs glibc {}.{}, the oldest userland has {}.{}",
                file.display(),
                needed.0,
                needed.1,
                OLDEST.0,
                OLDEST.1
            );
        }
        Ok(file)
    }
}

/// Something that cargo builds for the machines.
struct Product {
    package: &'static str,
    /// Name of the file that counts.
    file: &'static str,
    /// Profile: what goes into a checkpoint is optimised, what only drives tests compiles quickly.
    profile: &'static str,
}

const PLUGIN: Product = Product {
    package: "rocferry-plugin",
    file: "libamdgpu_plugin.so",
    profile: "release",
};
const SCENARIOS: Product = Product {
    package: "rocferry-scenarios",
    file: "scenarios",
    profile: "dev",
};

fn build(product: &Product, sysroot: Option<&Path>) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(source_root());
    command.args([
        "build",
        "--profile",
        product.profile,
        "--package",
        product.package,
    ]);
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
        bail!("{} does not compile ({})", product.package, out.status);
    }
    artifact(&String::from_utf8_lossy(&out.stdout), product.file)
        .with_context(|| format!("cargo built no {}", product.file))
}

/// The file of that name among cargo's messages, one JSON object a line.
fn artifact(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|m| m["reason"] == "compiler-artifact")
        .filter_map(|m| m["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|f| f.as_str().map(PathBuf::from))
        .find(|f| f.file_name().is_some_and(|n| n == name))
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
            artifact(text, "libamdgpu_plugin.so"),
            Some(PathBuf::from("/t/libamdgpu_plugin.so"))
        );
        assert_eq!(artifact("", "x"), None);
    }
}
