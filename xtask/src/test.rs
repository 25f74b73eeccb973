//! `cargo xtask test`: unit tests, the simulator's conformance, and all scenarios with real CRIU.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rocferry_vm::{Lab, Stream, Userland, source_root};

use crate::guest::{self, Programs};
use crate::reboot;

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

/// Beginning of the names of cases for a machine with systemd as process 1.
const SYSTEMD: &str = "systemd/";

/// Exit status of the scenarios after a case that hung: go on in a new machine.
const HUNG: i32 = 3;

/// What the console of a machine says that met a breakpoint of the kernel's own code patching after its
/// removal: a fault of QEMU's translator with several processors, which no code of ours can cause.
const TRANSLATOR_FAULT: &str = "Oops: int3";

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
    if everything && !args.no_conformance {
        conformance(&lab, &programs, &mut tally)?;
    }
    let (reboots, others): (Vec<_>, Vec<_>) = args
        .names
        .iter()
        .cloned()
        .partition(|name| name.starts_with(reboot::PREFIX));
    let (systemd, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|name| name.starts_with(SYSTEMD));
    for &userland in &args.userland {
        let mut run = |process_1, names: &[String]| {
            let machine = (userland, process_1);
            match everything || !names.is_empty() {
                true => scenarios(&lab, machine, &programs, (names, args.repeat), &mut tally),
                false => Ok(()),
            }
        };
        run(Process1::Agent, &others)?;
        if userland == Userland::Sid {
            run(Process1::Systemd, &systemd)?;
            if everything || !reboots.is_empty() {
                reboot::run(&lab, &programs, &reboots, &mut tally)?;
            }
        }
    }
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

/// The names, from the program that runs them; it needs no machine for that.
fn list() -> Result<ExitCode> {
    let scenarios = Lab::open()?.scenarios()?;
    let status = Command::new(scenarios).arg("list").status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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
fn conformance(lab: &Lab, programs: &Programs, tally: &mut Tally) -> Result<()> {
    println!("[test] conformance of the simulator");
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

/// What a machine starts with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Process1 {
    /// The harness's own program.
    Agent,
    /// systemd; the scenarios choose the cases for it.
    Systemd,
}

/// All chosen cases on one userland. A machine that dies takes only the case with it that was running.
fn scenarios(
    lab: &Lab,
    (userland, process_1): (Userland, Process1),
    programs: &Programs,
    (names, repeat): (&[String], u32),
    tally: &mut Tally,
) -> Result<()> {
    match process_1 {
        Process1::Agent => println!("[test] scenarios on {userland}"),
        Process1::Systemd => println!("[test] scenarios on {userland} with systemd"),
    }
    let mut done = BTreeSet::new();
    let mut repeated = BTreeSet::new();
    loop {
        let session = match process_1 {
            Process1::Agent => guest::start(lab, userland, programs)?,
            Process1::Systemd => guest::start_systemd(lab, programs)?,
        };
        let mut running = None;
        let mut closed = false;
        let skip: String = done.iter().map(|name| format!(" --skip {name}")).collect();
        let script = format!(
            "/host/bin/scenarios run --repeat {} {}{skip}",
            repeat,
            names.join(" ")
        );
        let ended = session.exec_with(&script, Duration::from_secs(5000), &mut |stream, line| {
            if let Some(name) = line.strip_prefix("run ") {
                running = Some(name.to_owned());
                return;
            }
            guest::show(stream, &format!("  {userland}: {line}"));
            if line.ends_with(": it hangs") {
                // The machine cannot see how little of the processors it was given.
                let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
                println!("  {userland}: load of the host: {}", load.trim());
            }
            if stream == Stream::Stdout && is_result(line) {
                done.extend(running.take());
            }
            tally.count(&userland.to_string(), stream, line);
            closed |= line.contains(" passed, ");
        });
        match ended {
            Ok(out) => {
                if out.code == HUNG {
                    continue;
                }
                if !closed {
                    bail!("The scenarios ended without a result: {}", out.stderr);
                }
                return session.close();
            }
            Err(error) => {
                let Some(name) = running else {
                    return Err(error);
                };
                let console = session.console_tail(40);
                println!("{console}");
                if console.contains(TRANSLATOR_FAULT) && repeated.insert(name.clone()) {
                    println!(
                        "  {userland}: {name} runs once more: QEMU ran code of the kernel that was being patched"
                    );
                    done.remove(&name);
                    continue;
                }
                println!("  {userland}: not ok {name}: the machine died: {error:#}");
                tally.failed.push(format!("{userland} {name}"));
                done.insert(name);
            }
        }
    }
}

fn is_result(line: &str) -> bool {
    ["ok ", "not ok ", "skip "]
        .iter()
        .any(|word| line.starts_with(word))
}
