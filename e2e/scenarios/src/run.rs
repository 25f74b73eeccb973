//! Runs the cases one after another.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::case::{BIN, Case, Lab, SHARED_BIN, Skip};
use crate::cases;
use crate::containers::has_systemd;
use crate::criu::Criu;
use crate::hang::{self, kernel_log};
use crate::proc;

/// Prints the names of all cases.
pub(crate) fn list() {
    for case in cases::all() {
        println!("{}", case.name);
    }
}

/// Which cases to run, and how.
pub(crate) struct Choice {
    /// Beginnings of names; none = all.
    pub(crate) names: Vec<String>,
    /// Whole names to be left out.
    pub(crate) skip: Vec<String>,
    /// Names of cases that have passed in another machine.
    pub(crate) passed: Vec<String>,
    /// How often each case runs, one time after the other.
    pub(crate) repeat: u32,
    /// Print the kernel's messages of passing cases too.
    pub(crate) verbose: bool,
}

/// How the cases ended so far.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
    skipped: u32,
    /// Names of those that passed.
    good: BTreeSet<String>,
}

/// Runs the chosen cases. True when none failed.
pub(crate) fn run(choice: &Choice) -> Result<bool> {
    prepare()?;
    let criu = Criu::install()?;
    let names = &choice.names;
    let begins = |case: &Case| names.iter().any(|name| case.name.starts_with(name));
    // Each case is for one kind of machine.
    let here = |case: &Case| case.name.starts_with(cases::systemd::PREFIX) == has_systemd();
    let chosen: Vec<_> = cases::all()
        .into_iter()
        .filter(|case| here(case) && (names.is_empty() || begins(case)))
        .collect();
    if chosen.is_empty() {
        bail!("no case has such a name");
    }
    let mut tally = Tally {
        good: choice.passed.iter().cloned().collect(),
        ..Tally::default()
    };
    for case in chosen {
        // Whole names: one case's name may be the beginning of another's.
        if choice.skip.iter().any(|name| name == case.name) {
            continue;
        }
        if !case.on.includes(criu.version) {
            tally.skipped += 1;
            continue;
        }
        if let Some(other) = passed_as(case.name, &tally.good) {
            tally.passed += 1;
            say(&format!("ok {} (it is {other})", case.name));
            continue;
        }
        for _ in 0..choice.repeat {
            run_and_say(&case, &criu, choice.verbose, &mut tally);
        }
    }
    let Tally {
        passed,
        failed,
        skipped,
        ..
    } = tally;
    say(&format!(
        "{passed} passed, {failed} failed, {skipped} skipped"
    ));
    Ok(failed == 0)
}

/// Runs one leg of a case over two machines. True when it did not fail.
pub(crate) fn leg(name: &str, leg: &str) -> Result<bool> {
    prepare()?;
    let run = cases::machines::leg(name, leg)?;
    let mut lab = Lab::new(Path::new(CASE_DIR), Criu::install()?)?;
    let done = run(&mut lab).and_then(|()| lab.sim.unload());
    Ok(say_part(name, leg, &done))
}

/// Runs one half of a case across a reboot: `/data` is a disk that outlives it. True when it did not fail.
pub(crate) fn half(name: &str, half: &str) -> Result<bool> {
    prepare()?;
    let run = match (name, half) {
        ("reboot/held", "before") => cases::wrapper::reboot::before,
        ("reboot/held", "after") => cases::wrapper::reboot::after,
        _ => bail!("no half {half} of a case {name}"),
    };
    let root = Path::new(cases::wrapper::reboot::DISK).join(half);
    let mut lab = Lab::new(&root, Criu::install()?)?;
    let done = run(&mut lab);
    // What runs and is held goes down with the machine.
    std::mem::forget(lab);
    Ok(say_part(name, half, &done))
}

fn say_part(name: &str, part: &str, done: &Result<()>) -> bool {
    match done {
        Ok(()) => say(&format!("ok {name}")),
        Err(error) => {
            say(&format!("not ok {name}: {part}: {error:#}"));
            say(&kernel_log());
        }
    }
    done.is_ok()
}

/// Runs a case once, and says how it ended.
fn run_and_say(case: &Case, criu: &Criu, verbose: bool, tally: &mut Tally) {
    say(&format!("run {}", case.name));
    let begun = Instant::now();
    let known = kernel_log().lines().count();
    let alive = watch(case);
    let result = run_one(case, criu);
    drop(alive);
    let took = begun.elapsed().as_secs_f32();
    match result {
        Ok(()) => {
            tally.passed += 1;
            tally.good.insert(case.name.to_owned());
            say(&format!("ok {} ({took:.1} s)", case.name));
            if verbose {
                say(&kernel_log_from(known));
            }
        }
        Err(error) if error.is::<Skip>() => {
            tally.skipped += 1;
            say(&format!("skip {}: {error}", case.name));
        }
        Err(error) => {
            tally.failed += 1;
            say(&format!("not ok {} ({took:.1} s): {error:#}", case.name));
            say(&kernel_log_from(known));
        }
    }
}

/// The case that has passed and is the same as this one.
fn passed_as(name: &str, good: &BTreeSet<String>) -> Option<&'static str> {
    let same = cases::defects::SAME
        .iter()
        .find(|(defect, _)| *defect == name)?;
    good.contains(same.1).then_some(same.1)
}

/// Folder of the case that runs.
const CASE_DIR: &str = "/run/rocferry/case";

/// Exit status after a hung case: the machine is not to be trusted any more, the host starts another one.
const HUNG: i32 = 3;

/// After its report a hung case gets this long: one that then goes on has only missed a wake-up.
const REVIVAL: Duration = Duration::from_secs(10);

/// A case's limit is counted in pieces of this length.
const PIECE: Duration = Duration::from_secs(1);

/// Does the case end within its limit? Counted are pieces of waiting, not time: however long a host lets this
/// machine stand still in the middle of one, it counts as one.
fn ends_within(ended: &Receiver<()>, limit: Duration) -> bool {
    let mut left = limit;
    while !left.is_zero() {
        let piece = left.min(PIECE);
        if ended.recv_timeout(piece) != Err(RecvTimeoutError::Timeout) {
            return true;
        }
        left -= piece;
    }
    false
}

/// Ends this program when the case does not end within its limit. Dropping the sender calls it off.
fn watch(case: &Case) -> Sender<()> {
    let (alive, ended) = channel();
    let (name, limit) = (case.name, Duration::from_secs(case.limit_s.into()));
    thread::spawn(move || {
        if !ends_within(&ended, limit) {
            say(&format!("not ok {name} ({} s): it hangs", limit.as_secs()));
            hang::report(Path::new(CASE_DIR), &say);
            if ends_within(&ended, REVIVAL) {
                say("  the case went on by itself after this report was made");
            }
            std::process::exit(HUNG);
        }
    });
    alive
}

fn run_one(case: &Case, criu: &Criu) -> Result<()> {
    let root = Path::new(CASE_DIR);
    let before = kernel_warnings();
    let mut lab = Lab::new(root, criu.clone())?;
    let result = catch_unwind(AssertUnwindSafe(|| (case.run)(&mut lab))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        bail!("panic: {}", text.unwrap_or_default())
    });
    // Nothing of the case may go on: its processes hold the simulator.
    let left = leftovers();
    let unloaded = lab.sim.unload();
    result?;
    if !left.is_empty() {
        bail!("processes were left behind: {left:?}");
    }
    unloaded?;
    let after = kernel_warnings();
    if after.len() > before.len() {
        bail!("the kernel warned: {:?}", &after[before.len()..]);
    }
    Ok(())
}

/// Kills what is left of a case and says what it was.
fn leftovers() -> Vec<String> {
    let ours = |command: &str| command.contains("rocferry/bin/") || command.starts_with("criu ");
    let mut found = Vec::new();
    for (pid, command) in proc::all().unwrap_or_default() {
        if ours(&command) && !command.contains("scenarios") && proc::is_alive(pid) {
            let _ = Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .status();
            found.push(command);
        }
    }
    found
}

/// The share is no place for executables that CRIU must find again: copies on tmpfs.
pub(crate) fn prepare() -> Result<()> {
    fs::create_dir_all(BIN)?;
    for entry in fs::read_dir(SHARED_BIN).with_context(|| format!("no {SHARED_BIN}"))? {
        let entry = entry?;
        let to = Path::new(BIN).join(entry.file_name());
        if entry.file_type()?.is_file() && !same_size(&entry.path(), &to) {
            let _ = fs::remove_file(&to);
            fs::copy(entry.path(), to)?;
        }
    }
    for module in [
        "drm",
        "tun",
        "unix_diag",
        "inet_diag",
        "tcp_diag",
        "udp_diag",
        "netlink_diag",
        "af_packet_diag",
    ] {
        let _ = Command::new("modprobe").arg(module).output();
    }
    Ok(())
}

fn same_size(a: &Path, b: &Path) -> bool {
    let stamp = |path: &Path| fs::metadata(path).map(|meta| (meta.len(), meta.modified().ok()));
    matches!((stamp(a), stamp(b)), (Ok(a), Ok(b)) if a.0 == b.0 && a.1 <= b.1)
}

fn kernel_warnings() -> Vec<String> {
    let bad = ["WARNING:", "BUG:", "Oops", "kfd-sim: warning", "would oops"];
    kernel_log()
        .lines()
        .filter(|line| bad.iter().any(|word| line.contains(word)))
        .map(str::to_owned)
        .collect()
}

/// The kernel's messages after the first `known` lines.
fn kernel_log_from(known: usize) -> String {
    let log = kernel_log();
    let new: Vec<_> = log
        .lines()
        .skip(known)
        .map(|line| format!("    {line}"))
        .collect();
    new.join("\n")
}

/// One line, at once.
fn say(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_ends_within_its_limit_or_it_does_not() {
        let (alive, ended) = channel::<()>();
        assert!(!ends_within(&ended, Duration::from_millis(20)));
        let begun = Instant::now();
        assert!(!ends_within(&ended, PIECE + Duration::from_millis(20)));
        assert!(begun.elapsed() > PIECE);
        drop(alive);
        assert!(ends_within(&ended, PIECE * 60));
    }
}
