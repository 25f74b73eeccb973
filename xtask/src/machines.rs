//! The scenarios, group by group, on as many machines at once as the host has use for: a machine without hardware
//! virtualisation keeps about one processor busy.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use rocferry_vm::{Lab, Session, Stream, Userland};

use crate::guest::{self, Programs};
use crate::reboot;
use crate::test::{self, Tally};
use crate::two_machines;

/// Exit status of the scenarios after a case that hung: go on in a new machine.
const HUNG: i32 = 3;

/// What the console of a machine says that met a breakpoint of the kernel's own code patching after its
/// removal: a fault of QEMU's translator with several processors, which no code of ours can cause.
const TRANSLATOR_FAULT: &str = "Oops: int3";

/// Groups that take minutes each: they begin first, so that none of them is alone at the end.
const LONG: [&str; 3] = ["agent/", "pod/", "wrapper/"];

/// The group whose cases are for a machine with systemd as process 1.
const SYSTEMD: &str = "systemd/";

/// What to run.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) userlands: &'a [Userland],
    /// Beginnings of names; none = all.
    pub(crate) names: &'a [String],
    /// How often each case runs.
    pub(crate) repeat: u32,
    /// Machines at once.
    pub(crate) machines: u32,
    /// The simulator's conformance too.
    pub(crate) conformance: bool,
}

/// What a machine is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// This userland, and the harness's own program as process 1.
    Plain(Userland),
    /// Sid with systemd as process 1.
    Systemd,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(userland) => userland.fmt(f),
            Self::Systemd => f.write_str("sid with systemd"),
        }
    }
}

/// One thing for one machine to do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Job {
    /// The simulator against the specification of the kernel's interface.
    Conformance,
    /// The cases whose names begin so.
    Cases(Kind, Vec<String>),
    /// Cases whose machine loses its power.
    Reboots(Vec<String>),
    /// Cases over two machines.
    Two(Vec<String>),
}

/// What all machines share.
struct Shared<'a> {
    lab: &'a Lab,
    programs: &'a Programs,
    repeat: u32,
    jobs: Mutex<VecDeque<Job>>,
    tally: Mutex<&'a mut Tally>,
    /// Cases that passed: others are the same as they, under a second name.
    good: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

/// Runs them. The first machine that cannot go on ends the run.
pub(crate) fn run(
    lab: &Lab,
    programs: &Programs,
    choice: &Choice<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let known = names(lab)?;
    let shared = Shared {
        lab,
        programs,
        repeat: choice.repeat,
        jobs: Mutex::new(jobs(choice, &known)?),
        tally: Mutex::new(tally),
        good: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..choice.machines)
            .map(|_| scope.spawn(|| work(&shared)))
            .collect();
        let mut result = Ok(());
        for worker in workers {
            let ended = worker
                .join()
                .unwrap_or_else(|_| bail!("A machine's thread panicked"));
            result = result.and(ended);
        }
        result
    })
}

/// The names of all cases, from the program that runs them; it needs no machine for that.
pub(crate) fn names(lab: &Lab) -> Result<Vec<String>> {
    let output = Command::new(lab.scenarios()?).arg("list").output()?;
    if !output.status.success() {
        bail!("The scenarios do not list themselves: {}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Cuts the choice into jobs: one a group and userland, long ones first.
fn jobs(choice: &Choice<'_>, known: &[String]) -> Result<VecDeque<Job>> {
    let wanted = |name: &str| {
        choice.names.is_empty() || choice.names.iter().any(|begin| name.starts_with(begin))
    };
    let special = |cases: &[&str]| -> Vec<String> {
        let cases = cases.iter().filter(|name| wanted(name));
        cases.map(|name| (*name).to_owned()).collect()
    };
    let (reboots, two) = (special(&reboot::CASES), special(&two_machines::CASES));
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for name in known.iter().filter(|name| wanted(name)) {
        let group = name.split_inclusive('/').next().unwrap_or(name);
        match groups.iter_mut().find(|(other, _)| other == group) {
            Some((_, names)) => names.push(name.clone()),
            None => groups.push((group.to_owned(), vec![name.clone()])),
        }
    }
    if groups.is_empty() && reboots.is_empty() && two.is_empty() {
        bail!(
            "No case begins with {}: cargo xtask test --list shows them",
            choice.names.join(" or ")
        );
    }
    groups.sort_by_key(|(group, _)| !LONG.contains(&group.as_str()));
    let mut jobs = VecDeque::new();
    if choice.conformance {
        jobs.push_back(Job::Conformance);
    }
    for &userland in choice.userlands {
        let cases = |(group, names): &(String, Vec<String>)| {
            let whole = choice.names.is_empty();
            let names = if whole {
                vec![group.clone()]
            } else {
                names.clone()
            };
            match group == SYSTEMD {
                true => Job::Cases(Kind::Systemd, names),
                false => Job::Cases(Kind::Plain(userland), names),
            }
        };
        let is_here =
            |(group, _): &&(String, Vec<String>)| group != SYSTEMD || userland == Userland::Sid;
        jobs.extend(groups.iter().filter(is_here).map(cases));
        if userland == Userland::Sid {
            let special = [(&two, Job::Two as fn(_) -> _), (&reboots, Job::Reboots)];
            let wanted = special.iter().filter(|(names, _)| !names.is_empty());
            jobs.extend(wanted.map(|(names, job)| job((*names).clone())));
        }
    }
    Ok(jobs)
}

/// Does jobs until there are none, on one machine as long as they are for its kind.
fn work(shared: &Shared<'_>) -> Result<()> {
    let mut machine: Option<(Kind, Session)> = None;
    loop {
        let current = machine.as_ref().map(|(kind, _)| *kind);
        let Some(job) = next(&mut lock(&shared.jobs), current) else {
            break;
        };
        let done = match &job {
            Job::Cases(kind, names) => cases(shared, *kind, names, &mut machine),
            Job::Conformance => alone(shared, |lab, programs, own| {
                test::conformance(lab, programs, own)
            }),
            Job::Reboots(names) => alone(shared, |lab, programs, own| {
                reboot::run(lab, programs, names, own)
            }),
            Job::Two(names) => alone(shared, |lab, programs, own| {
                two_machines::run(lab, programs, names, own)
            }),
        };
        if let Err(error) = done {
            // The others finish what they run.
            lock(&shared.jobs).clear();
            return Err(error);
        }
    }
    machine.map_or(Ok(()), |(_, session)| session.close())
}

/// Does a job with machines of its own.
fn alone(
    shared: &Shared<'_>,
    job: impl FnOnce(&Lab, &Programs, &mut Tally) -> Result<()>,
) -> Result<()> {
    let mut own = Tally::default();
    let done = job(shared.lab, shared.programs, &mut own);
    lock(&shared.tally).add(own);
    done
}

/// The next job, one for the machine that is up if there is one.
fn next(jobs: &mut VecDeque<Job>, current: Option<Kind>) -> Option<Job> {
    let same = jobs.iter().position(|job| match job {
        Job::Cases(kind, _) => Some(*kind) == current,
        Job::Conformance | Job::Reboots(_) | Job::Two(_) => false,
    });
    jobs.remove(same.unwrap_or(0))
}

/// Runs cases on one kind of machine. A machine that dies takes only the case with it that was running.
fn cases(
    shared: &Shared<'_>,
    kind: Kind,
    names: &[String],
    machine: &mut Option<(Kind, Session)>,
) -> Result<()> {
    let mut done = BTreeSet::new();
    let mut repeated = BTreeSet::new();
    loop {
        let session = match machine.take() {
            Some((other, session)) if other == kind => session,
            other => {
                if let Some((_, session)) = other {
                    session.close()?;
                }
                println!("[test] a machine with {kind}");
                match kind {
                    Kind::Plain(userland) => guest::start(shared.lab, userland, shared.programs)?,
                    Kind::Systemd => guest::start_systemd(shared.lab, shared.programs)?,
                }
            }
        };
        let mut seen = Seen::default();
        let words = words(shared, kind, names, &done);
        let ended = session.exec_with(&words, Duration::from_secs(5000), &mut |stream, line| {
            seen.line(shared, kind, stream, line);
        });
        done.append(&mut seen.done);
        match ended {
            Ok(out) if out.code == HUNG => {}
            Ok(out) => {
                if !seen.closed {
                    bail!("The scenarios ended without a result: {}", out.stderr);
                }
                *machine = Some((kind, session));
                return Ok(());
            }
            Err(error) => {
                let Some(name) = seen.running else {
                    return Err(error);
                };
                let console = session.console_tail(40);
                println!("{console}");
                if console.contains(TRANSLATOR_FAULT) && repeated.insert(name.clone()) {
                    println!(
                        "  {kind}: {name} runs once more: QEMU ran code of the kernel that was being patched"
                    );
                    continue;
                }
                println!("  {kind}: not ok {name}: the machine died: {error:#}");
                lock(&shared.tally).failed.push(format!("{kind} {name}"));
                done.insert(name);
            }
        }
    }
}

/// The command that runs them, less those that are done.
fn words(shared: &Shared<'_>, kind: Kind, names: &[String], done: &BTreeSet<String>) -> String {
    let mut words = format!("/host/bin/scenarios run --repeat {}", shared.repeat);
    let good = lock(&shared.good)
        .get(&kind.to_string())
        .cloned()
        .unwrap_or_default();
    for (flag, names) in [("--skip", done), ("--passed", &good)] {
        for name in names {
            words.push_str(&format!(" {flag} {name}"));
        }
    }
    for name in names {
        words.push(' ');
        words.push_str(name);
    }
    words
}

/// What one run of the scenarios has said so far.
#[derive(Default)]
struct Seen {
    running: Option<String>,
    done: BTreeSet<String>,
    closed: bool,
}

impl Seen {
    fn line(&mut self, shared: &Shared<'_>, kind: Kind, stream: Stream, line: &str) {
        if let Some(name) = line.strip_prefix("run ") {
            self.running = Some(name.to_owned());
            return;
        }
        let closing = stream == Stream::Stdout && line.contains(" passed, ");
        self.closed |= closing;
        if !closing {
            guest::show(stream, &format!("  {kind}: {line}"));
        }
        if line.ends_with(": it hangs") {
            // The machine cannot see how little of the processors it was given.
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            println!("  {kind}: load of the host: {}", load.trim());
        }
        if stream == Stream::Stdout && is_result(line) {
            if let (Some(name), true) = (&self.running, line.starts_with("ok ")) {
                lock(&shared.good)
                    .entry(kind.to_string())
                    .or_default()
                    .insert(name.clone());
            }
            self.done.extend(self.running.take());
        }
        lock(&shared.tally).count(&kind.to_string(), stream, line);
    }
}

fn is_result(line: &str) -> bool {
    ["ok ", "not ok ", "skip "]
        .iter()
        .any(|word| line.starts_with(word))
}

/// A thread that panicked has counted as much as it did.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(userlands: &[Userland], names: &[&str]) -> Result<Vec<Job>> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let choice = Choice {
            userlands,
            names: &names,
            repeat: 1,
            machines: 2,
            conformance: names.is_empty(),
        };
        let known = ["tree/a", "tree/b", "pod/a", "agent/a", "systemd/a"].map(str::to_owned);
        jobs(&choice, &known).map(Vec::from)
    }

    fn group(userland: Userland, names: &[&str]) -> Job {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Job::Cases(Kind::Plain(userland), names)
    }

    #[test]
    fn everything_is_a_job_a_group_and_the_long_ones_begin() -> Result<()> {
        let reboots = reboot::CASES.map(str::to_owned).to_vec();
        let two = two_machines::CASES.map(str::to_owned).to_vec();
        let (sid, trixie) = (Userland::Sid, Userland::Trixie);
        let expected = [
            Job::Conformance,
            group(sid, &["pod/"]),
            group(sid, &["agent/"]),
            group(sid, &["tree/"]),
            Job::Cases(Kind::Systemd, vec!["systemd/".to_owned()]),
            Job::Two(two),
            Job::Reboots(reboots),
            group(trixie, &["pod/"]),
            group(trixie, &["agent/"]),
            group(trixie, &["tree/"]),
        ];
        assert_eq!(of(&[sid, trixie], &[])?, expected);
        Ok(())
    }

    #[test]
    fn of_a_group_only_what_is_named_runs() -> Result<()> {
        let sid = Userland::Sid;
        let found = of(&[sid], &["tree/b", "pod"])?;
        assert_eq!(found, [group(sid, &["pod/a"]), group(sid, &["tree/b"])]);
        Ok(())
    }

    #[test]
    fn a_name_that_nothing_begins_with_is_refused() {
        let error = of(&[Userland::Sid], &["tres"]).map_err(|error| error.to_string());
        let error = error.expect_err("No case has such a name");
        assert!(error.contains("tres"), "{error}");
    }

    #[test]
    fn a_machine_that_is_up_goes_on_with_its_userland() {
        let (sid, trixie) = (Userland::Sid, Userland::Trixie);
        let mut queue = VecDeque::from([group(sid, &["a/"]), group(trixie, &["a/"])]);
        assert_eq!(
            next(&mut queue, Some(Kind::Plain(trixie))),
            Some(group(trixie, &["a/"]))
        );
        assert_eq!(
            next(&mut queue, Some(Kind::Plain(trixie))),
            Some(group(sid, &["a/"]))
        );
        assert_eq!(next(&mut queue, Some(Kind::Plain(trixie))), None);
    }
}
