//! The hook that writes down which GPUs a container was given, installed as its files say.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::case;
use crate::case::{BIN, Case, Lab};
use crate::containers::{Device, Podman, Runtime};

pub(crate) const CASES: &[Case] = &[case("containers/hook", hook)];

/// The folder that Podman reads unless told otherwise, and the files for it.
const HOOKS: &str = "/usr/share/containers/oci/hooks.d";
const FILES: [(&str, &str); 2] = [
    (
        "rocferry-record.json",
        include_str!("../../../../../node-agent/hooks.d/rocferry-record.json"),
    ),
    (
        "rocferry-forget.json",
        include_str!("../../../../../node-agent/hooks.d/rocferry-forget.json"),
    ),
];

/// Where those files look for the program, and where it writes.
const PROGRAM: &str = "/usr/libexec/rocferry/rocferry-hook";
const STATE: &str = "/var/lib/rocferry";

/// Recorded while it exists, whatever the runtime; and a hook that cannot do its work stops nobody.
fn hook(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-4")?;
    let installed = Installed::new()?;
    let scratch = lab.folder("podman")?;
    for runtime in [Runtime::Crun, Runtime::Runc] {
        let podman = Podman::new(runtime, &scratch)?;
        let sleep = ["/bin/busybox", "sleep", "1000"];
        podman.start("gpu", &Device::of_gpus(&lab.sim, &[1, 2])?, &sleep)?;
        podman.start("plain", &[], &sleep)?;
        let (gpu, plain) = (
            podman.inspect("gpu", "{{.Id}}")?,
            podman.inspect("plain", "{{.Id}}")?,
        );
        ensure!(
            !record(&plain).exists(),
            "a container without GPUs has a record"
        );
        let text = fs::read_to_string(record(&gpu)).context("no record")?;
        let written: Value = serde_json::from_str(&text)?;
        let counters = lab.sim.counters()?;
        let known = |name: &str| counters.get(name).copied();
        for (at, place) in [1, 2].into_iter().enumerate() {
            let entry = &written["gpus"][at];
            ensure!(
                entry["gpuId"].as_u64() == known(&format!("gpu{place}.gpu_id"))
                    && entry["renderMinor"].as_u64() == known(&format!("gpu{place}.render_minor")),
                "GPU {place} is not in its place: {text}"
            );
        }
        ensure!(
            written["gpus"].as_array().map(Vec::len) == Some(2),
            "the container was given 2 GPUs of 4: {text}"
        );
        podman.run(&["rm", "--force", "--time", "0", "gpu"])?.ok()?;
        ensure!(!record(&gpu).exists(), "the record outlives its container");

        // No folder can be made there now.
        let _ = fs::remove_dir_all(STATE);
        fs::write(STATE, "")?;
        podman.start("late", &Device::of_gpus(&lab.sim, &[0])?, &sleep)?;
        podman.pid("late")?;
        fs::remove_file(STATE)?;
    }
    drop(installed);
    Ok(())
}

fn record(id: &str) -> std::path::PathBuf {
    Path::new(STATE)
        .join("containers")
        .join(format!("{id}.json"))
}

/// The hook as on a host; taken away when dropped.
struct Installed;

impl Installed {
    fn new() -> Result<Self> {
        let installed = Self;
        let program = Path::new(BIN).join("rocferry-hook");
        ensure!(program.exists(), "no {}", program.display());
        for folder in [Some(Path::new(HOOKS)), Path::new(PROGRAM).parent()] {
            fs::create_dir_all(folder.context("path")?)?;
        }
        for (name, text) in FILES {
            fs::write(Path::new(HOOKS).join(name), text)?;
        }
        let _ = fs::remove_file(PROGRAM);
        symlink(program, PROGRAM)?;
        Ok(installed)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        for (name, _) in FILES {
            let _ = fs::remove_file(Path::new(HOOKS).join(name));
        }
        let _ = fs::remove_file(PROGRAM);
        let _ = fs::remove_dir_all(STATE);
    }
}
