//! `cargo xtask bench NAME`: measurements, as a table or as one JSON object a line.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rocferry_vm::{Lab, Servers, Stream, Userland, source_root};
use serde_json::{Map, Value};

use crate::guest::Programs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    name: Name,
    /// One JSON object a line on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// GPUs, for `staging` and `registrations`.
    #[arg(long, default_value_t = 1)]
    gpus: u32,
    /// Size of the BO in MiB, for `staging`.
    #[arg(long, default_value_t = 2048)]
    bo_mib: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// Whether GPUs can be matched, and how, for whole machines and for 5,000 nodes. On this machine, one core.
    Matching,
    /// Do reading of images and copying to the GPU overlap? On this machine, with delaying engines.
    Overlap,
    /// Memory that a large BO needs at dump and restore. In a test machine.
    Staging,
    /// Registrations of memory with the GPU, for 256 and 10,000 BOs. In a test machine.
    Registrations,
    /// How long a checkpoint of a process with 256 MiB on its GPU keeps it from running, with a store in a folder and
    /// one in an S3 server behind a link of 20 ms and 50 MB/s. In a test machine.
    Freeze,
    /// Storing and reading back a checkpoint of 2 GiB, against tar, zstd and an upload. On this machine, with an S3
    /// server and a directory; needs 12 GiB in TMPDIR and 5 GiB in the cache.
    Store,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut print = Printer {
        json: args.json,
        columns: Vec::new(),
    };
    match args.name {
        Name::Matching => example("rocferry-topology", "matching", &mut print)?,
        Name::Overlap => example("rocferry-gpu", "overlap", &mut print)?,
        Name::Staging => {
            // The simulated memory is the machine's own, and a dump holds it once more on disk.
            let bytes = args.bo_mib * args.gpus;
            let script = format!(
                "/host/bin/scenarios bench staging {} {}",
                args.bo_mib, args.gpus
            );
            in_machine(
                &script,
                &[],
                3072 + bytes,
                2 * u64::from(bytes) + 1024,
                &mut print,
            )?;
        }
        Name::Registrations => {
            let script = format!("/host/bin/scenarios bench registrations {}", args.gpus);
            in_machine(&script, &[], 5120, 2048, &mut print)?;
        }
        Name::Freeze => {
            let server = Servers::open()?.s3_program()?;
            let script = "/host/bin/scenarios bench freeze";
            in_machine(script, &[(server, "versitygw")], 5120, 4096, &mut print)?;
        }
        Name::Store => {
            rocferry_vm::require_zstd()?;
            example("rocferry-store", "speed", &mut print)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs an example that prints an object a line.
fn example(package: &str, example: &str, print: &mut Printer) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .current_dir(source_root())
        .args([
            "run",
            "--release",
            "--package",
            package,
            "--example",
            example,
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("Cannot start cargo")?;
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        print.line(line)?;
    }
    if !out.status.success() {
        bail!("Example {example} of {package} failed: {}", out.status);
    }
    Ok(())
}

/// Runs a command in a test machine that has these programs as well.
fn in_machine(
    script: &str,
    more: &[(PathBuf, &'static str)],
    memory_mib: u32,
    disk_mib: u64,
    print: &mut Printer,
) -> Result<()> {
    let lab = Lab::open()?;
    lab.prepare(&[Userland::Sid])?;
    let programs = more
        .iter()
        .fold(Programs::build(&lab)?, |programs, (file, name)| {
            programs.with(file.clone(), name)
        });
    let session = lab
        .vm(Userland::Sid)
        .name("bench")
        .memory_mib(memory_mib)
        .data_disk_mib(disk_mib)
        .timeout(Duration::from_secs(3600))
        .start()?;
    programs.put(&session)?;
    let mut failed = None;
    let out = session.exec_with(
        script,
        Duration::from_secs(3500),
        &mut |stream, line| match stream {
            Stream::Stdout => failed = failed.take().or(print.line(line).err()),
            Stream::Stderr => eprintln!("{line}"),
        },
    )?;
    out.ok()?;
    session.close()?;
    failed.map_or(Ok(()), Err)
}

/// Prints results as they come.
struct Printer {
    json: bool,
    /// Names of the columns printed last.
    columns: Vec<String>,
}

impl Printer {
    fn line(&mut self, line: &str) -> Result<()> {
        let row: Map<String, Value> =
            serde_json::from_str(line).with_context(|| format!("Not a JSON object: {line}"))?;
        if self.json {
            println!("{line}");
            return Ok(());
        }
        let columns: Vec<String> = row.keys().cloned().collect();
        if columns != self.columns {
            println!(
                "{}",
                columns
                    .iter()
                    .map(|name| format!("{name:>22}"))
                    .collect::<String>()
            );
            self.columns = columns;
        }
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        println!(
            "{}",
            row.values()
                .map(|value| format!("{:>22}", text(value)))
                .collect::<String>()
        );
        Ok(())
    }
}
