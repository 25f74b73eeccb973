//! `cargo xtask mutants`: does a test fail when a defect is put into the plugin?
//!
//! For each entry of the tables: a copy of the sources outside of the clone, altered in one place, the plugin or
//! the unit test built from it, and the test that must fail. Each test is first seen to pass with the sources as
//! they are. One test machine serves all cases that need one; `--group matching` needs none.

mod matching;
mod table;
mod tree;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rocferry_vm::{Cache, ExecOutput, Lab, Session, Userland};

use crate::guest::{self, Programs};
use table::{Mutant, Test};
use tree::Tree;

/// A hung case ends earlier by its own limit.
const CASE: Duration = Duration::from_secs(600);
/// Random questions of each seed that a mutant of the matcher has to answer: few, so that it is quick.
const QUESTIONS: &str = "10000";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Numbers of defects, `f01`; none = all.
    names: Vec<String>,
    /// Only those of one group.
    #[arg(long)]
    group: Option<Group>,
    /// Do not look first whether each test passes without its mutant.
    #[arg(long)]
    no_baseline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Group {
    /// Defects of the C plugin, put into ours.
    Plugin,
    /// Each rule of the matching of GPUs, left out or altered.
    Matching,
}

impl Group {
    const ALL: [Self; 2] = [Self::Plugin, Self::Matching];

    const fn mutants(self) -> &'static [&'static [Mutant]] {
        match self {
            Self::Plugin => &[table::MUTANTS],
            Self::Matching => &[matching::PROPERTIES, matching::TIES],
        }
    }
}

/// What became of one mutant.
enum Fate {
    /// Its test failed, as it has to; with the first thing that it said.
    Killed(String),
    /// Its test passed.
    Survived,
    /// It could not be tried: the pattern, the compiler, or the test without the mutant.
    Broken(String),
}

impl Fate {
    const fn word(&self) -> &'static str {
        match self {
            Self::Killed(_) => "killed",
            Self::Survived => "SURVIVED",
            Self::Broken(_) => "BROKEN",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let begun = Instant::now();
    let all: Vec<&Mutant> = Group::ALL
        .into_iter()
        .filter(|group| args.group.is_none_or(|only| only == *group))
        .flat_map(Group::mutants)
        .copied()
        .flatten()
        .collect();
    if let Some(name) = args
        .names
        .iter()
        .find(|name| all.iter().all(|m| m.name != *name))
    {
        bail!("No mutant is called {name:?}");
    }
    let chosen: Vec<_> = all
        .into_iter()
        .filter(|m| args.names.is_empty() || args.names.iter().any(|name| name == m.name))
        .collect();
    let root = Cache::open()?.root().join("mutants");
    let work = Work {
        tree: Tree::copy(&root.join("tree"))?,
        target: root.join("target"),
        out: root.join("out"),
        matching: OnceCell::new(),
    };
    fs::create_dir_all(&work.out)?;
    let mut fates: BTreeMap<&str, Fate> = BTreeMap::new();
    let mut plugins = Vec::new();
    for mutant in chosen.iter().copied() {
        say(&format!("{}: {}", mutant.name, mutant.what));
        match mutant.test {
            Test::Scenario(case) => match work.plugin(mutant) {
                Ok(file) => plugins.push((mutant, case, file)),
                Err(error) => drop(fates.insert(mutant.name, Fate::Broken(format!("{error:#}")))),
            },
            Test::Unit(..) | Test::Matching => {
                let fate = work
                    .unit(mutant, !args.no_baseline)
                    .unwrap_or_else(|error| Fate::Broken(format!("{error:#}")));
                say(&format!("{}: {}", mutant.name, fate.word()));
                fates.insert(mutant.name, fate);
            }
        }
    }
    if !plugins.is_empty() {
        let plain = work.build_plugin("plain")?;
        let mut machine = Machine::start(&plain)?;
        for (mutant, case, file) in plugins {
            let fate = machine.fate(mutant.name, case, &plain, &file, !args.no_baseline)?;
            fates.insert(mutant.name, fate);
        }
    }
    Ok(report(&chosen, &fates, begun))
}

/// Prints the table; fails unless every mutant was killed.
fn report(chosen: &[&Mutant], fates: &BTreeMap<&str, Fate>, begun: Instant) -> ExitCode {
    println!();
    let mut killed = 0;
    for mutant in chosen {
        let (test, what) = (test_name(mutant.test), mutant.what);
        match fates.get(mutant.name) {
            Some(Fate::Killed(how)) => {
                killed += 1;
                println!("killed    {}  {test}  ({what}): {how}", mutant.name);
            }
            Some(Fate::Survived) => println!("SURVIVED  {}  {test}  ({what})", mutant.name),
            Some(Fate::Broken(why)) => println!("BROKEN    {}  {test}: {why}", mutant.name),
            None => println!("BROKEN    {}  {test}: not tried", mutant.name),
        }
    }
    println!(
        "{killed} of {} mutants killed in {} s",
        chosen.len(),
        begun.elapsed().as_secs()
    );
    if killed == chosen.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn test_name(test: Test) -> &'static str {
    match test {
        Test::Scenario(name) | Test::Unit(_, _, name) => name,
        Test::Matching => "cases, oracle",
    }
}

/// The copy of the sources, and where things are built.
struct Work {
    tree: Tree,
    target: PathBuf,
    out: PathBuf,
    /// Whether the matcher's tests pass without a mutant; many entries want to know.
    matching: OnceCell<Result<(), String>>,
}

impl Work {
    /// The plugin with a mutant in it.
    fn plugin(&self, mutant: &Mutant) -> Result<PathBuf> {
        let _altered = self.tree.alter(mutant.file, mutant.find, mutant.replace)?;
        self.build_plugin(mutant.name)
    }

    /// Builds the plugin from the copy as it is.
    fn build_plugin(&self, name: &str) -> Result<PathBuf> {
        let out = self.cargo(&["build", "--quiet", "--package", "rocferry-plugin"])?;
        ensure!(
            out.status.success(),
            "it does not compile: {}",
            tail(&out.stderr)
        );
        let file = self.out.join(format!("{name}.so"));
        fs::copy(self.target.join("mutant/libamdgpu_plugin.so"), &file)
            .context("Cargo has built no plugin")?;
        Ok(file)
    }

    fn unit(&self, mutant: &Mutant, baseline: bool) -> Result<Fate> {
        let (package, target, exact) = match mutant.test {
            Test::Unit(package, target, test) => (package, target, Some(test)),
            _ => ("rocferry-topology", matching::TARGETS, None),
        };
        let build = [
            &["test", "--quiet", "--no-run", "--package", package],
            target,
        ]
        .concat();
        let mut run = [&["test", "--package", package], target].concat();
        if let Some(test) = exact {
            run.extend(["--", "--exact", test]);
        }
        if baseline {
            let first = || self.passes(&run, exact.is_some());
            let passes = match exact {
                Some(_) => first(),
                None => self.matching.get_or_init(first).clone(),
            };
            if let Err(why) = passes {
                return Ok(Fate::Broken(format!(
                    "the test does not pass without it: {why}"
                )));
            }
        }
        let _altered = self.tree.alter(mutant.file, mutant.find, mutant.replace)?;
        let out = self.cargo(&build)?;
        ensure!(
            out.status.success(),
            "it does not compile: {}",
            tail(&out.stderr)
        );
        let out = self.cargo(&run)?;
        if out.status.success() {
            return Ok(Fate::Survived);
        }
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let mut lines = text.lines();
        let place = lines.find_map(|line| Some(line.split_once(" panicked at ")?.1));
        let said = match (exact, place) {
            (Some(_), Some(place)) => place.trim_end_matches(':').to_owned(),
            // The place is always the same; which question was answered wrongly says more.
            (None, Some(place)) => first_line(lines.next().unwrap_or(place)),
            (_, None) => "the test fails".to_owned(),
        };
        Ok(Fate::Killed(said))
    }

    /// Runs tests with the sources as they are; what they say when they fail.
    fn passes(&self, run: &[&str], one: bool) -> Result<(), String> {
        let out = self.cargo(run).map_err(|error| format!("{error:#}"))?;
        let text = String::from_utf8_lossy(&out.stdout);
        if out.status.success() && (!one || text.contains("1 passed")) {
            Ok(())
        } else {
            Err(tail(&out.stdout))
        }
    }

    fn cargo(&self, args: &[&str]) -> Result<std::process::Output> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let (verb, rest) = args.split_first().context("No verb")?;
        Command::new(cargo)
            .current_dir(self.tree.root())
            .arg(verb)
            .args(["--profile", "mutant"])
            .args(rest)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("ROCFERRY_ORACLE_CASES", QUESTIONS)
            .stdin(Stdio::null())
            .output()
            .context("Cannot start cargo")
    }
}

/// A test machine, replaced when a mutant has brought it down.
struct Machine {
    lab: Lab,
    programs: Programs,
    session: Option<Session>,
}

/// How a case ended.
enum Ended {
    Passed,
    Failed(String),
    /// The machine is not to be used any more.
    Down(String),
}

impl Machine {
    fn start(plugin: &Path) -> Result<Self> {
        let lab = Lab::open()?;
        lab.prepare(&[Userland::Sid])?;
        let programs = Programs::build(&lab)?.with(plugin.to_owned(), "amdgpu_plugin.so");
        Ok(Self {
            lab,
            programs,
            session: None,
        })
    }

    fn fate(
        &mut self,
        name: &str,
        case: &str,
        plain: &Path,
        altered: &Path,
        baseline: bool,
    ) -> Result<Fate> {
        if baseline {
            match self.case(case, "plain", plain)? {
                Ended::Passed => {}
                Ended::Failed(why) | Ended::Down(why) => {
                    return Ok(Fate::Broken(format!(
                        "the test does not pass without it: {why}"
                    )));
                }
            }
        }
        let fate = match self.case(case, name, altered)? {
            Ended::Passed => Fate::Survived,
            Ended::Failed(how) => Fate::Killed(how),
            Ended::Down(how) => Fate::Killed(format!("with the machine: {how}")),
        };
        say(&format!("{name}: {} ({case})", fate.word()));
        Ok(fate)
    }

    fn case(&mut self, case: &str, name: &str, plugin: &Path) -> Result<Ended> {
        /// Exit status after a case that hung.
        const HUNG: i32 = 3;
        let session = match self.session.take() {
            Some(session) => session,
            None => guest::start(&self.lab, Userland::Sid, &self.programs)?,
        };
        let at = session.put(plugin, &format!("mutant-{name}.so"))?;
        let script = format!("ROCFERRY_PLUGIN={at} /host/bin/scenarios run {case}");
        let ended = match session.exec(&script, CASE) {
            Ok(out) => judge(&out, case)?,
            Err(error) => return Ok(Ended::Down(first_line(&format!("{error:#}")))),
        };
        if !matches!(ended, (_, HUNG)) {
            self.session = Some(session);
        }
        Ok(match ended {
            (Some(why), HUNG) => Ended::Down(why),
            (Some(why), _) => Ended::Failed(why),
            (None, _) => Ended::Passed,
        })
    }
}

/// Why a case failed, and the status of the program.
fn judge(out: &ExecOutput, case: &str) -> Result<(Option<String>, i32)> {
    let starts = |what: &str| {
        out.stdout
            .lines()
            .find(|line| line.starts_with(&format!("{what} {case}")))
    };
    if let Some(line) = starts("not ok") {
        let why = first_line(line.split_once(": ").map_or(line, |(_, why)| why));
        // What the plugin says of it, when CRIU has failed.
        let said = out.stdout.lines().find_map(|line| {
            let (_, said) = line.split_once("amdgpu_plugin: ")?;
            said.contains("_EXT_FILE: ").then(|| first_line(said))
        });
        let why = said.map_or_else(|| why.clone(), |said| format!("{why}; {said}"));
        return Ok((Some(why), out.code));
    }
    ensure!(
        out.code == 0 && starts("ok").is_some(),
        "Case {case} has no result (exit {}): {}{}",
        out.code,
        out.stdout,
        out.stderr
    );
    Ok((None, out.code))
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(160).collect()
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(12)..].join("\n    ")
}

fn say(line: &str) {
    println!("[mutants] {line}");
}
