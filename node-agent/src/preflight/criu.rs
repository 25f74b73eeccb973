//! Is CRIU there, new enough, and does it load the plugin?

use std::path::Path;
use std::process::{Command, Stdio};

use super::Finding;
use crate::runtime::{Criu, CriuVersion};

/// The first kernel with the interface that the plugin needs.
const KERNEL: (u32, u32) = (5, 18);

/// `gpu`: the plugin is needed.
pub(super) fn check(criu: &Criu, gpu: bool, spool: &Path) -> Vec<Finding> {
    let mut found = Vec::new();
    let version = match criu.version() {
        Ok(version) => version,
        Err(error) => {
            let text = format!("CRIU cannot be used: {}", crate::error::causes(&error));
            return vec![Finding::refusal("criu", text)];
        }
    };
    if version < CriuVersion::OLDEST {
        found.push(Finding::refusal(
            "criu",
            format!(
                "CRIU has version {version}; {} is needed",
                CriuVersion::OLDEST
            ),
        ));
    }
    if !gpu {
        return found;
    }
    found.extend(kernel());
    match criu.plugin() {
        None => found.push(Finding::refusal(
            "plugin",
            "CRIU has no amdgpu_plugin.so: put it into CRIU's folder of plugins, or name another one with --plugins",
        )),
        Some(plugin) if found.is_empty() => {
            if let Err(reason) = trial(criu, spool) {
                found.push(Finding::refusal(
                    "plugin",
                    format!(
                        "CRIU {version} does not work with {}: {reason}",
                        plugin.display()
                    ),
                ));
            }
        }
        Some(_) => {}
    }
    found
}

fn kernel() -> Option<Finding> {
    let name = rustix::system::uname();
    of_release(&name.release().to_string_lossy())
}

fn of_release(release: &str) -> Option<Finding> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    let version = (number().unwrap_or(0), number().unwrap_or(0));
    (version < KERNEL).then(|| {
        Finding::refusal(
            "kernel",
            format!(
                "The kernel is {release}; GPUs can be checkpointed from {}.{} on",
                KERNEL.0, KERNEL.1
            ),
        )
    })
}

/// Dumps a process that does nothing. `criu check` loads no plugins, a dump does, and one that it cannot load ends it.
pub(crate) fn trial(criu: &Criu, spool: &Path) -> Result<(), String> {
    let words = |error: std::io::Error| format!("a trial is not possible: {error}");
    let dir = tempfile::Builder::new()
        .prefix("trial-")
        .tempdir_in(spool)
        .map_err(words)?;
    // In a session with us, which is left to whoever restores (nobody).
    let mut sleeper = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .map_err(words)?;
    let dumped = criu.trial(sleeper.id(), dir.path());
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    dumped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field report 8: a kernel without the interface, or with an early one, is not asked.
    #[test]
    fn a_kernel_that_is_too_old_is_named() {
        for (release, good) in [
            ("5.15.0-78-generic", false),
            ("4.19", false),
            ("5.17.99", false),
            ("nonsense", false),
            ("5.18.0", true),
            ("6.5.0-rc1", true),
            ("10.0", true),
        ] {
            let found = of_release(release);
            assert_eq!(found.is_none(), good, "{release}");
            assert!(found.is_none_or(|found| found.refuses && found.text.contains(release)));
        }
    }

    #[test]
    fn a_missing_criu_and_an_old_one_are_told_apart() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a folder");
        let program = dir.path().join("criu");
        let criu = Criu {
            program: program.clone(),
            plugins: Some(dir.path().to_owned()),
        };
        let about = |gpu| {
            let found = check(&criu, gpu, dir.path());
            found
                .iter()
                .map(|finding| finding.about)
                .collect::<Vec<_>>()
        };
        assert_eq!(about(false), ["criu"]);
        let say = |version: &str| {
            let text = format!("#!/bin/sh\necho 'Version: {version}'\nexit 3\n");
            std::fs::write(&program, text).expect("written");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&program, mode).expect("ours");
        };
        // A test that runs beside this one may be about to start a program and hold it open for writing.
        let busy = |about: &dyn Fn(bool) -> Vec<&'static str>, gpu| {
            let mut found = about(gpu);
            for _ in 0..1000 {
                if criu.version().is_ok() {
                    found = about(gpu);
                    break;
                }
                std::thread::yield_now();
            }
            found
        };
        say("3.16");
        assert_eq!(busy(&about, false), ["criu"]);
        say("4.2");
        assert_eq!(busy(&about, false), Vec::<&str>::new());
        // No plugin in that folder, then one that this CRIU cannot load.
        assert_eq!(busy(&about, true), ["plugin"]);
        std::fs::write(dir.path().join("amdgpu_plugin.so"), "").expect("written");
        let found = check(&criu, true, dir.path());
        let texts: Vec<_> = found.iter().map(|finding| &finding.text).collect();
        assert!(
            texts.iter().any(|text| text.contains("does not work with")),
            "{texts:?}"
        );
    }
}
