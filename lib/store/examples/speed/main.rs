//! How fast the store is, against `tar | zstd -3 | upload` to the same S3 server and the same directory.
//!
//! `cargo xtask bench store`. Prints one JSON object a line for each place and operation, and fails when a
//! limit is missed:
//!
//! - `push1`: a [checkpoint](data) of 2 GiB goes to an empty store,
//! - `push2`: it goes there again with a tenth of its bytes changed. The other side sends everything,
//! - `pull`: that second checkpoint is read to a new directory,
//! - `push1-sealed`: like `push1`, sealed. The other side is not; there is no limit.
//!
//! `s` and `baseline_s` are seconds from the start to the end of the processes, the better of two rounds, in
//! each of which both sides take turns. Before each of them everything that is to be read is in memory and
//! everything that was written before is on the disk. `sent_mib` went over the wire (at `pull`: came),
//! `peak_rss_mib` is what the store's process took at most. Both sides wait for what they have sent to the
//! directory to be on the disk, neither for files that it has pulled: the other side leaves them in the page
//! cache, the store, as it always does, has most of them on the disk by then.

use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use serde_json::Value;

use data::Version;
use place::Place;

mod data;
mod place;
mod work;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 2;
/// Two checkpoints, three stores, two archives, and what is read back.
const SPACE: u64 = 12 << 30;
const MEMORY_MIB: f64 = 300.0;

/// Operations, and what share of the baseline's time they may take.
const LIMITS: [(&str, Option<f64>); 4] = [
    ("push1", Some(0.67)),
    ("push2", Some(0.125)),
    ("pull", Some(0.5)),
    ("push1-sealed", None),
];
/// What share of `push1`'s bytes `push2` may send.
const SENT: f64 = 0.12;

/// The best of some rounds.
#[derive(Clone, Copy, Debug)]
struct Measured {
    baseline: f64,
    ours: f64,
    sent: f64,
    peak: f64,
}

fn main() -> Done<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.is_empty() {
        work::work(&arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir = tempfile::tempdir()?;
    let free = rustix::fs::statvfs(dir.path())?;
    let free = free.f_bavail.saturating_mul(free.f_frsize);
    if free < SPACE {
        let (dir, free) = (dir.path().display(), free >> 20);
        return Err(format!("{dir} has {free} MiB free, {} are needed", SPACE >> 20).into());
    }
    data::make(&dir.path().join("first"), Version::First)?;
    data::make(&dir.path().join("second"), Version::Second)?;
    let mut met = true;
    for place in [Place::s3, Place::directory] {
        let mut best: Vec<Measured> = Vec::new();
        let mut name = "";
        for _ in 0..ROUNDS {
            let place = place()?;
            name = place.name();
            let round = round(&place, dir.path())?;
            if best.is_empty() {
                best = round;
            } else {
                let pairs = best.iter_mut().zip(round);
                pairs.for_each(|(best, round)| best.better(round));
            }
        }
        met &= print(name, &best)?;
    }
    Ok(match met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Each operation once on both sides, in the order of [`LIMITS`].
fn round(place: &Place, dir: &Path) -> Done<Vec<Measured>> {
    let (first, second) = (dir.join("first"), dir.join("second"));
    let (url, sealed_url) = (place.store("store")?, place.store("sealed")?);
    let push = |verb: &str, from: &Path, url: &str| {
        let arguments = [OsStr::new(verb), from.as_os_str(), OsStr::new(url)];
        time(place.work(&arguments)?, from)
    };
    let archive = |from: &Path, name| time(place.pack(from, name)?, from);

    let baseline = archive(&first, "first.tar.zst")?;
    let push1 = Measured::new(&baseline, &push("push", &first, &url)?)?;
    let baseline = archive(&second, "second.tar.zst")?;
    let stored = push("push", &second, &url)?;
    let push2 = Measured::new(&baseline, &stored)?;
    let sealed = push("push-sealed", &first, &sealed_url)?;
    let sealed = Measured {
        baseline: push1.baseline,
        ..Measured::new(&baseline, &sealed)?
    };

    let id = stored.report["id"].as_str().ok_or("No name")?;
    let unpacked = dir.join("unpacked");
    let command = place.unpack("second.tar.zst", &unpacked)?;
    let baseline = time(command, &place.dir())?;
    same(&second, &unpacked)?;
    let arguments = ["pull", &url, id].map(OsStr::new);
    let arguments = [&arguments[..], &[unpacked.as_os_str()]].concat();
    let pull = time(place.work(&arguments)?, &place.dir())?;
    same(&second, &unpacked)?;
    let pull = Measured::new(&baseline, &pull)?;
    Ok(vec![push1, push2, pull, sealed])
}

/// How a command went.
struct Timed {
    seconds: f64,
    report: Value,
}

/// Runs a command that reads what is below `from`.
fn time(mut command: Command, from: &Path) -> Done<Timed> {
    rustix::fs::sync();
    warm(from)?;
    let begun = Instant::now();
    let out = command.stderr(Stdio::inherit()).output()?;
    let seconds = begun.elapsed().as_secs_f64();
    if !out.status.success() {
        // Its environment holds secrets.
        let command: Vec<_> = command.get_args().collect();
        return Err(format!("{command:?} ended with {}", out.status).into());
    }
    let report = match out.stdout.is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(&out.stdout)?,
    };
    Ok(Timed { seconds, report })
}

/// Reads all files, so that they are in memory.
fn warm(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return io::copy(&mut File::open(path)?, &mut io::sink()).map(drop);
    }
    for file in fs::read_dir(path)? {
        warm(&file?.path())?;
    }
    Ok(())
}

/// Fails unless both directories hold the same; then removes the second one.
fn same(one: &Path, other: &Path) -> Done<()> {
    let mut diff = Command::new("diff");
    diff.args(["-r", "--brief"]).arg(one).arg(other);
    let status = diff.stdout(io::stderr()).status()?;
    if !status.success() {
        return Err("What was read is not what was stored".into());
    }
    Ok(fs::remove_dir_all(other)?)
}

impl Measured {
    fn new(baseline: &Timed, ours: &Timed) -> Done<Self> {
        let mebibytes = |name: &str| {
            let bytes = ours.report[name].as_f64().ok_or("No report");
            bytes.map(|bytes| bytes / 1_048_576.0)
        };
        Ok(Self {
            baseline: baseline.seconds,
            ours: ours.seconds,
            sent: mebibytes("moved")?,
            peak: mebibytes("peak_rss")?,
        })
    }

    /// Shorter times count, and more memory.
    fn better(&mut self, other: Self) {
        self.baseline = self.baseline.min(other.baseline);
        self.ours = self.ours.min(other.ours);
        self.sent = self.sent.max(other.sent);
        self.peak = self.peak.max(other.peak);
    }
}

/// Prints what was measured in one place. False if a limit is missed.
fn print(place: &str, measured: &[Measured]) -> Done<bool> {
    let mut met = true;
    let mut miss = |op: &str, what: &str, is: f64, limit: f64| {
        if is > limit {
            eprintln!("{place}, {op}: {what} is {is:.3}, more than {limit}");
            met = false;
        }
    };
    let first = measured.first().map_or(0.0, |push1| push1.sent);
    for ((op, limit), measured) in LIMITS.iter().zip(measured) {
        let ratio = measured.ours / measured.baseline;
        writeln!(
            io::stdout(),
            "{{\"bench\":\"store\",\"backend\":\"{place}\",\"op\":\"{op}\",\
             \"baseline_s\":{:.2},\"s\":{:.2},\"ratio\":{ratio:.3},\
             \"sent_mib\":{:.0},\"peak_rss_mib\":{:.0}}}",
            measured.baseline,
            measured.ours,
            measured.sent,
            measured.peak,
        )?;
        if let Some(limit) = limit {
            miss(op, "time against the baseline's", ratio, *limit);
            miss(op, "memory in MiB", measured.peak, MEMORY_MIB);
        }
        if *op == "push2" {
            miss(
                op,
                "what is sent against push1",
                measured.sent / first,
                SENT,
            );
        }
    }
    Ok(met)
}
