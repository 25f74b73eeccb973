//! Running the agent.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::case::{BIN, Case, Lab, On};
use crate::proc;
use crate::workload::Workload;

pub(crate) const fn case(
    name: &'static str,
    limit_s: u32,
    run: fn(&mut Lab) -> Result<()>,
) -> Case {
    Case {
        name,
        on: On::Newest,
        limit_s,
        run,
    }
}

/// The agent of a machine, with a store that other machines reach too.
pub(crate) struct Agent {
    state: PathBuf,
    store: String,
    environment: Vec<(String, String)>,
    plugins: PathBuf,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit status, or the signal as a negative number.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn is(self, code: i32) -> Result<Self> {
        ensure!(
            self.code == code,
            "the agent ended with {}, not {code}: {} {}",
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(self)
    }

    pub(crate) fn says(self, words: &[&str]) -> Result<Self> {
        for word in words {
            ensure!(
                self.stderr.contains(word),
                "the agent does not say {word:?}: {}",
                self.stderr
            );
        }
        Ok(self)
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout)
            .with_context(|| format!("no JSON: {} {}", self.stdout, self.stderr))
    }
}

impl Agent {
    pub(crate) fn new(lab: &mut Lab) -> Result<Self> {
        Ok(Self {
            state: lab.folder("state")?,
            store: format!("file://{}", lab.folder("store")?.display()),
            environment: Vec::new(),
            plugins: lab.criu.libdir().to_owned(),
        })
    }

    /// The agent of another machine with the same store.
    pub(crate) fn elsewhere(&self, lab: &mut Lab) -> Result<Self> {
        Ok(Self {
            state: lab.folder("state")?,
            store: self.store.clone(),
            environment: self.environment.clone(),
            plugins: self.plugins.clone(),
        })
    }

    /// URL of its store.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// With its own state somewhere else.
    pub(crate) fn with_state(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.state);
        self
    }

    /// With one variable more in its environment.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With another store, and what the environment says of that.
    pub(crate) fn with_store(mut self, url: &str, environment: &[(String, String)]) -> Self {
        url.clone_into(&mut self.store);
        self.environment = environment.to_vec();
        self
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(format!("{BIN}/rocferry-agent"));
        command
            .args(words)
            .env("ROCFERRY_STATE", &self.state)
            .env("ROCFERRY_STORE", &self.store)
            .envs(self.environment.iter().cloned())
            .env("ROCFERRY_PLUGINS", &self.plugins)
            .env("ROCFERRY_LOG", "debug")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Result<Ended> {
        end(&mut self.command(words))
    }

    /// With a fault at a point: `POINT=kill`.
    pub(crate) fn run_with(&self, fault: &str, words: &[&str]) -> Result<Ended> {
        end(self.command(words).env("ROCFERRY_FAULT", fault))
    }

    /// In the background.
    pub(crate) fn start(&self, words: &[&str]) -> Result<Child> {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().context("cannot start the agent")
    }

    pub(crate) fn checkpoint(&self, workload: &Workload, after: &str) -> Result<Ended> {
        self.run(&checkpoint(&workload.pid.to_string(), after))
    }

    /// Restores, and the workload goes on under the pid that it has now.
    pub(crate) fn restore(&self, id: &str, workload: &mut Workload) -> Result<Value> {
        let ended = self.run(&["restore", "--runtime", "bare", "--json", id])?;
        let report = ended.is(0)?.json()?;
        let pid = report["pid"].as_i64().context("no pid")?;
        workload.pid = i32::try_from(pid)?;
        Ok(report)
    }

    /// Ids of the checkpoints that are listed.
    pub(crate) fn listed(&self) -> Result<Vec<String>> {
        let ended = self.run(&["image", "ls", "-o", "json"])?;
        if ended.stderr.contains("no store") || ended.code == 2 {
            return Ok(Vec::new());
        }
        let list = ended.is(0)?.json()?;
        let list = list.as_array().context("no list")?.clone();
        let id = |one: &Value| Some(one["id"].as_str()?.to_owned());
        list.iter().map(|one| id(one).context("no id")).collect()
    }

    /// Records of the journal.
    pub(crate) fn journal(&self) -> Result<Vec<Value>> {
        let ended = self.run(&["status", "--json"])?.is(0)?;
        Ok(ended.json()?.as_array().context("no list")?.clone())
    }

    /// The same for a single record; what it said about it.
    pub(crate) fn recover_says(&self, word: &str) -> Result<String> {
        let ended = self.run(&["recover", "--json"])?.is(0)?;
        let list = ended.json()?;
        ensure!(list[0]["done"] == word, "it is not {word}: {list}");
        Ok(ended.stderr)
    }

    /// What a start of the agent does first; what it has done with each record.
    pub(crate) fn recover(&self) -> Result<Vec<String>> {
        let ended = self.run(&["recover", "--json"])?.is(0)?;
        let list = ended.json()?;
        let list = list.as_array().context("no list")?.clone();
        let done = |one: &Value| Some(one["done"].as_str()?.to_owned());
        list.iter()
            .map(|one| done(one).context("no word"))
            .collect()
    }

    /// Nothing is under way, held, or left in the spool.
    pub(crate) fn is_idle(&self) -> Result<()> {
        let journal = self.journal()?;
        ensure!(journal.is_empty(), "the journal has {journal:?}");
        let spool = fs::read_dir(self.state.join("spool"))?;
        let left: Vec<_> = spool.filter_map(|entry| Some(entry.ok()?.path())).collect();
        ensure!(left.is_empty(), "left in the spool: {left:?}");
        Ok(())
    }
}

pub(crate) fn checkpoint<'a>(pid: &'a str, after: &'a str) -> [&'a str; 6] {
    ["checkpoint", "--runtime", "bare", "--json", after, pid]
}

fn end(command: &mut Command) -> Result<Ended> {
    let output = command.output().context("cannot start the agent")?;
    Ok(of(&output))
}

pub(crate) fn of(output: &std::process::Output) -> Ended {
    let signal = output.status.signal().map(|signal| -signal);
    Ended {
        code: output.status.code().or(signal).unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A cgroup for a workload alone, removed when dropped.
pub(crate) struct OwnCgroup(PathBuf);

impl OwnCgroup {
    pub(crate) fn new() -> Result<Self> {
        let path = PathBuf::from("/sys/fs/cgroup/workload");
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn start(&self, lab: &mut Lab, args: &[&str]) -> Result<Workload> {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        lab.workload_under(&["sh", "-c", &enter, "sh"], args)
    }

    pub(crate) fn is_frozen(&self) -> Result<bool> {
        let events = fs::read_to_string(self.0.join("cgroup.events"))?;
        Ok(events.lines().any(|line| line == "frozen 1"))
    }

    pub(crate) fn is_empty(&self) -> Result<bool> {
        let events = fs::read_to_string(self.0.join("cgroup.events"))?;
        Ok(events.lines().any(|line| line == "populated 0"))
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        let begun = Instant::now();
        while fs::remove_dir(&self.0).is_err() && begun.elapsed() < Duration::from_secs(10) {
            sleep(Duration::from_millis(20));
        }
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is()? {
        ensure!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Cgroups in which the agent restores. Those of processes that have ended are there until its next start.
pub(crate) fn restored_cgroups() -> Result<Vec<PathBuf>> {
    let begins = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("rocferry-"))
    };
    let entries = fs::read_dir("/sys/fs/cgroup")?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| begins(path)).collect())
}

/// No workload runs, not even in part.
pub(crate) fn nobody_runs() -> Result<()> {
    let left: Vec<_> = proc::all()?
        .into_iter()
        .filter(|(pid, command)| {
            let ours = command.contains("rocferry/bin/workload") || command.starts_with("criu ");
            ours && proc::is_alive(*pid)
        })
        .collect();
    ensure!(left.is_empty(), "it still runs: {left:?}");
    Ok(())
}
