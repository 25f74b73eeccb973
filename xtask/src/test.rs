//! `cargo xtask test`: unit tests, the simulator's conformance, and all scenarios with real CRIU.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rocferry_vm::{Lab, Stream, Userland, source_root};

use crate::guest::{self, Programs};
use crate::machines::{self, Choice};
use crate::reboot;
use crate::two_machines;

/// Sets of GPUs that the simulator's own conformance is checked on.
const CONFORMANCE: [&str; 3] = ["gfx90a-1", "gfx90a-2", "gfx8-1"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Beginnings of names of scenarios; none = everything, unit tests included.
    names: Vec<String>,
    /// Root file systems to run on: sid (CRIU 4.2.1), trixie (4.1.1), bookworm (3.17.1).
    #[arg(long, value_delimiter = ',', default_value = "sid,trixie,bookworm")]
    userland: Vec<Userland>,
    /// How often each scenario runs, one time after the other: shows what fails now and then.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Machines that run scenarios at once; each keeps about one processor busy and takes up to 5 GiB.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    machines: u32,
    /// Print the names of the scenarios and stop.
    #[arg(long)]
    list: bool,
    /// Leave out the unit tests.
    #[arg(long)]
    no_unit: bool,
    /// Leave out the simulator's conformance test.
    #[arg(long)]
    no_conformance: bool,
}

/// What has passed and failed so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u32,
    pub(crate) failed: Vec<String>,
    skipped: u32,
}

impl Tally {
    /// Counts a line of a test program: `ok NAME`, `not ok NAME: why`, `skip NAME: why`.
    pub(crate) fn count(&mut self, place: &str, stream: Stream, line: &str) {
        if stream == Stream::Stderr {
            return;
        }
        if line.starts_with("ok ") {
            self.passed += 1;
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            let name = rest.split([' ', ':']).next().unwrap_or(rest);
            self.failed.push(format!("{place} {name}"));
        } else if line.starts_with("skip ") {
            self.skipped += 1;
        }
    }

    /// With what another one counted.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped += other.skipped;
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let begun = Instant::now();
    if args.list {
        return list();
    }
    let everything = args.names.is_empty();
    if everything && !args.no_unit {
        unit_tests()?;
    }
    let lab = Lab::open()?;
    lab.prepare(&args.userland)?;
    let programs = with_c_plugin(Programs::build(&lab)?)?;
    let mut tally = Tally::default();
    let choice = Choice {
        userlands: &args.userland,
        names: &args.names,
        repeat: args.repeat,
        machines: args.machines,
        conformance: everything && !args.no_conformance,
    };
    machines::run(&lab, &programs, &choice, &mut tally)?;
    println!();
    for name in &tally.failed {
        println!("failed: {name}");
    }
    println!("{} s", begun.elapsed().as_secs());
    println!(
        "{} passed, {} failed, {} skipped",
        tally.passed,
        tally.failed.len(),
        tally.skipped
    );
    Ok(if tally.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Adds CRIU's own plugin, built from its source (`plugins/amdgpu`) by hand, for the cases `compat/`.
fn with_c_plugin(programs: Programs) -> Result<Programs> {
    let Some(path) = std::env::var_os("ROCFERRY_C_PLUGIN").map(PathBuf::from) else {
        println!(
            "[test] ROCFERRY_C_PLUGIN is not set: nothing is compared with CRIU's C plugin (compat/)"
        );
        return Ok(programs);
    };
    if !path.is_file() {
        bail!("ROCFERRY_C_PLUGIN={}: no such file", path.display());
    }
    Ok(programs.with(path, "c_amdgpu_plugin.so"))
}

/// The names of all scenarios.
fn list() -> Result<ExitCode> {
    for name in machines::names(&Lab::open()?)? {
        println!("{name}");
    }
    for name in reboot::CASES.into_iter().chain(two_machines::CASES) {
        println!("{name}");
    }
    Ok(ExitCode::SUCCESS)
}

fn unit_tests() -> Result<()> {
    println!("[test] unit tests");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(source_root())
        .args(["test", "--workspace", "--quiet"])
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("The unit tests fail");
    }
    Ok(())
}

/// The simulator against the specification of the kernel's interface.
pub(crate) fn conformance(lab: &Lab, programs: &Programs, tally: &mut Tally) -> Result<()> {
    println!("[test] a machine for the simulator's conformance");
    let session = guest::start(lab, Userland::Sid, programs)?;
    for preset in CONFORMANCE {
        let script = format!(
            "set -e; mkdir -p /run/c; cp /host/bin/conformance /run/c/\n\
             modprobe drm; insmod /host/bin/amdgpu.ko preset={preset}; cd /run/c\n\
             r=0; ./conformance || r=$?; rmmod amdgpu; exit $r"
        );
        let out = session.exec_with(&script, Duration::from_secs(900), &mut |stream, line| {
            if !line.starts_with("ok ") {
                guest::show(stream, &format!("  {preset}: {line}"));
            }
            tally.count(&format!("conformance {preset}"), stream, line);
        })?;
        if out.code != 0 && tally.failed.is_empty() {
            tally
                .failed
                .push(format!("conformance {preset}: exit {}", out.code));
        }
    }
    session.close()
}
