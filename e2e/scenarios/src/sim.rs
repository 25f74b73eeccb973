//! The simulator module: load with a description, unload, faults, counters.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::case::BIN;

const DEBUGFS: &str = "/sys/kernel/debug/kfd-sim";

/// The module. Unloaded when dropped.
#[derive(Default)]
pub(crate) struct Sim {
    loaded: Option<String>,
}

impl Sim {
    /// Loads the module anew with these parameters (`preset=… gpus=… renumber=…`): another machine.
    pub(crate) fn load(&mut self, parameters: &str) -> Result<()> {
        self.unload()?;
        let output = Command::new("insmod")
            .arg(format!("{BIN}/amdgpu.ko"))
            .args(parameters.split_ascii_whitespace())
            .output()?;
        ensure!(
            output.status.success(),
            "insmod {parameters}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        self.loaded = Some(parameters.to_owned());
        wait_for_nodes()
    }

    /// Unloads the module; fails when something still uses a GPU.
    pub(crate) fn unload(&mut self) -> Result<()> {
        if self.loaded.take().is_none() {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            let output = Command::new("rmmod").arg("amdgpu").output()?;
            if output.status.success() {
                return Ok(());
            }
            // Teardown of an ended process holds the module for a moment.
            if begun.elapsed() > Duration::from_secs(10) {
                bail!(
                    "the simulator stays in use: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Arms a fault: `POINT N ERRNO [REPEAT]`, or `sdma silent|fail|hang N`.
    pub(crate) fn fault(&self, line: &str) -> Result<()> {
        write("fault", line)
    }

    /// Takes all faults back.
    pub(crate) fn clear_faults(&self) -> Result<()> {
        write("fault", "clear")
    }

    /// Writes a control file of the simulator.
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<()> {
        write(file, value)
    }

    /// All counters by name (`unpause`, `gpu0.userptr`, …).
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>> {
        let text = read("counters")?;
        let pairs = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        });
        Ok(pairs.collect())
    }

    /// One counter, summed over all GPUs when `name` begins with `gpu*.`.
    pub(crate) fn counter(&self, name: &str) -> Result<u64> {
        let counters = self.counters()?;
        match name.strip_prefix("gpu*.") {
            Some(each) => Ok(counters
                .iter()
                .filter(|(key, _)| {
                    key.strip_prefix("gpu")
                        .and_then(|rest| rest.split_once('.'))
                        .is_some_and(|(_, rest)| rest == each)
                })
                .map(|(_, value)| value)
                .sum()),
            None => counters
                .get(name)
                .copied()
                .with_context(|| format!("no counter {name}")),
        }
    }

    /// How often a fault point was passed since the counters were reset (`POINT calls N failed N`).
    pub(crate) fn calls(&self, point: &str) -> Result<u64> {
        let text = read("points")?;
        let mut lines = text
            .lines()
            .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let found = lines.find(|words| words.first() == Some(&point));
        Ok(found
            .and_then(|words| words.get(2)?.parse().ok())
            .unwrap_or(0))
    }

    /// Sets all counters to 0.
    pub(crate) fn reset_counters(&self) -> Result<()> {
        write("reset_counters", "1")
    }

    /// The list of SDMA copies: begin and end in ns of CLOCK_MONOTONIC, bytes.
    pub(crate) fn copies(&self) -> Result<String> {
        read("copies")
    }

    /// One line per KFD process.
    pub(crate) fn processes(&self) -> Result<String> {
        read("processes")
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.unload();
    }
}

fn read(file: &str) -> Result<String> {
    let path = format!("{DEBUGFS}/{file}");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

fn write(file: &str, text: &str) -> Result<()> {
    let path = format!("{DEBUGFS}/{file}");
    fs::write(&path, text).with_context(|| format!("cannot write {text:?} to {path}"))
}

/// devtmpfs makes the nodes; nothing in the machine needs udev.
fn wait_for_nodes() -> Result<()> {
    let begun = Instant::now();
    while !fs::exists("/dev/kfd")? || !fs::exists("/dev/dri")? {
        ensure!(
            begun.elapsed() < Duration::from_secs(10),
            "no /dev/kfd or /dev/dri after insmod"
        );
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
