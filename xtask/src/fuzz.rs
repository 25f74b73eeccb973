//! `cargo xtask fuzz NAME`: feeds a parser with mutated inputs and fails when it panics, hangs or takes too much
//! memory. `fuzz/README.md` says how libFuzzer is driven by a stable compiler.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rocferry_vm::{Cache, source_root};

/// What cargo-fuzz passes as well when it is told to do without sanitizers: branches counted in place, with the
/// operands of comparisons, and no branches folded into others. `-Cpasses` and `-Cllvm-args` need no nightly compiler.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
     -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// Most that an input may keep in memory, in MiB. What the fuzzer itself keeps is within.
const RESIDENT_MIB: u32 = 512;
/// Most that may be asked for, touched or not, in KiB: what libFuzzer's own limit on single allocations would
/// catch, which works only with a sanitizer.
const ADDRESS_SPACE_KIB: u32 = 1536 * 1024;
/// Longest input in bytes.
const LENGTH: u32 = 64 * 1024;
/// Seconds that one input may take.
const HANG: u32 = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The target, one of those that --list prints.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Print the targets and stop.
    #[arg(long)]
    list: bool,
    /// How long to go on.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Run this one input instead.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let targets = targets()?;
    let name = match &args.name {
        Some(name) if !args.list => name,
        _ => {
            for (name, what) in &targets {
                println!("{name:<12} {what}");
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    if !targets.iter().any(|target| target.0 == *name) {
        bail!("No fuzz target is called {name:?}; --list prints them");
    }
    require_compiler()?;
    let cache = Cache::open()?;
    let room = Room {
        root: cache.root().join("fuzz"),
        name,
    };
    let program = room.build()?;
    match &args.replay {
        Some(file) => room.replay(&program, file),
        None => room.fuzz(&program, args.seconds),
    }
}

/// Names of the targets and the first line of their documentation.
fn targets() -> Result<Vec<(String, String)>> {
    let dir = source_root().join("fuzz/targets");
    let mut targets = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("Cannot list {}", dir.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        let what = text.lines().next().unwrap_or_default();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        targets.push((
            name.into_owned(),
            what.trim_start_matches("//! ").to_owned(),
        ));
    }
    targets.sort();
    Ok(targets)
}

/// libFuzzer is C++.
fn require_compiler() -> Result<()> {
    const COMMAND: &str = "apt-get install -y --no-install-recommends g++";
    let there = || {
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let version = Command::new(compiler).arg("--version").output();
        version.is_ok_and(|out| out.status.success())
    };
    if there() {
        return Ok(());
    }
    let root = fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
    ensure!(
        root && Path::new("/usr/bin/apt-get").exists(),
        "A C++ compiler is missing; run as root: {COMMAND}"
    );
    eprintln!("[fuzz] installing g++");
    let script = format!("apt-get update -q && {COMMAND} -q");
    let installed = Command::new("sh")
        .args(["-c", &script])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()?;
    ensure!(installed.success() && there(), "Run by hand: {COMMAND}");
    Ok(())
}

/// Where things of one target lie, outside of the clone.
struct Room<'a> {
    root: PathBuf,
    name: &'a str,
}

impl Room<'_> {
    /// Builds the program with counters in it. Only what is built for the target gets them, not build scripts.
    fn build(&self) -> Result<PathBuf> {
        let host = host()?;
        let status = self
            .cargo(&[
                "build",
                "--release",
                "--target",
                &host,
                "--features",
                "libfuzzer",
            ])
            .args(["--package", "rocferry-fuzz", "--bin", self.name])
            .env("RUSTFLAGS", FLAGS)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .status()
            .context("Cannot start cargo")?;
        ensure!(status.success(), "The fuzz target does not compile");
        Ok(self
            .root
            .join("target")
            .join(host)
            .join("release")
            .join(self.name))
    }

    /// Writes the inputs to start from, and returns their directory and the dictionary.
    fn seeds(&self) -> Result<(PathBuf, PathBuf)> {
        let dir = self.root.join("seeds").join(self.name);
        // Those of an earlier version would stay otherwise.
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        let dictionary = self.root.join("seeds").join(format!("{}.dict", self.name));
        let status = self
            .cargo(&[
                "run",
                "--quiet",
                "--package",
                "rocferry-fuzz",
                "--bin",
                "seeds",
                "--",
            ])
            .arg(self.name)
            .args([&dir, &dictionary])
            .status()
            .context("Cannot start cargo")?;
        ensure!(status.success(), "Cannot write the seeds");
        Ok((dir, dictionary))
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .current_dir(source_root())
            .args(args)
            .env("CARGO_TARGET_DIR", self.root.join("target"))
            .stdin(Stdio::null());
        command
    }

    fn fuzz(&self, program: &Path, seconds: u32) -> Result<ExitCode> {
        let (seeds, dictionary) = self.seeds()?;
        let corpus = self.root.join("corpus").join(self.name);
        let artifacts = self.root.join("artifacts").join(self.name);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let mut prefix = OsString::from("-artifact_prefix=");
        prefix.push(artifacts.join(""));
        let mut fuzzer = self.limited(program);
        // An empty dictionary is an error.
        if fs::metadata(&dictionary)?.len() > 0 {
            let mut words = OsString::from("-dict=");
            words.push(&dictionary);
            fuzzer.arg(words);
        }
        fuzzer
            .arg(prefix)
            .arg(format!("-max_total_time={seconds}"))
            .arg("-print_final_stats=1")
            .args([&corpus, &seeds]);
        let (success, seen) = watch(fuzzer)?;
        if success {
            ensure!(
                seen.counters,
                "The program has no counters in it: nothing guided the fuzzer"
            );
            println!("{}: nothing found in {seconds} s", self.name);
            return Ok(ExitCode::SUCCESS);
        }
        println!();
        let Some(file) = seen.reproducer else {
            bail!("{}: the fuzzer failed without an input to blame", self.name);
        };
        println!("{}: FAILED on {}", self.name, file.display());
        println!(
            "again:    cargo xtask fuzz {} --replay {}",
            self.name,
            file.display()
        );
        Ok(ExitCode::FAILURE)
    }

    fn replay(&self, program: &Path, file: &Path) -> Result<ExitCode> {
        ensure!(file.is_file(), "{}: no such file", file.display());
        let mut fuzzer = self.limited(program);
        fuzzer.arg(file);
        let (success, _) = watch(fuzzer)?;
        println!(
            "{}: {}",
            self.name,
            if success { "passes" } else { "FAILS" }
        );
        Ok(if success {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// The program under its limits.
    fn limited(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$@\""),
                "sh",
            ])
            .arg(program)
            .arg(format!("-rss_limit_mb={RESIDENT_MIB}"))
            .arg(format!("-max_len={LENGTH}"))
            .arg(format!("-timeout={HANG}"));
        command
    }
}

/// What libFuzzer has said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// It found counters in the program.
    counters: bool,
    /// The file with the input that failed.
    reproducer: Option<PathBuf>,
}

impl Seen {
    fn line(&mut self, line: &str) {
        // INFO: Loaded 1 modules   (7312 inline 8-bit counters): 7312 [0x…, 0x…),
        if let Some((_, rest)) = line.split_once(" modules ") {
            let count = rest.trim_start_matches([' ', '(']).split(' ').next();
            self.counters |= count.is_some_and(|count| count.parse().is_ok_and(|n: u32| n > 0));
        }
        if let Some((_, file)) = line.split_once("Test unit written to ") {
            self.reproducer = Some(file.trim_end().into());
        }
    }
}

/// Runs the fuzzer and shows what it says. True if it ended well.
fn watch(mut fuzzer: Command) -> Result<(bool, Seen)> {
    let mut child = fuzzer
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("Cannot start the fuzzer")?;
    let mut seen = Seen::default();
    let stderr = child.stderr.take().context("No standard error")?;
    for line in BufReader::new(stderr).split(b'\n') {
        // Inputs are printed as they are.
        let line = String::from_utf8_lossy(&line?).into_owned();
        eprintln!("{line}");
        seen.line(&line);
    }
    Ok((child.wait()?.success(), seen))
}

/// The triple of this machine.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let out = Command::new(rustc)
        .arg("-vV")
        .current_dir(source_root())
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say its host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fuzzer_says_is_understood() {
        let mut seen = Seen::default();
        seen.line("INFO: Loaded 1 modules   (0 inline 8-bit counters): 0 [0x1, 0x1),");
        assert_eq!(seen, Seen::default());
        seen.line("INFO: Loaded 1 modules   (7312 inline 8-bit counters): 7312 [0x1, 0x2),");
        assert!(seen.counters);
        seen.line("artifact_prefix='/x/'; Test unit written to /x/crash-0a1b");
        assert_eq!(seen.reproducer, Some("/x/crash-0a1b".into()));
    }

    #[test]
    fn targets_say_what_they_are() {
        let targets = targets().unwrap();
        assert!(targets.iter().any(|target| target.0 == "sysfs"));
        assert!(targets.iter().all(|target| target.1.ends_with('.')));
    }
}
