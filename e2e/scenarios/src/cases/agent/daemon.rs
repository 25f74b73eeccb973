//! The daemon: it looks after what other agents leave.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::tool::{Agent, OwnCgroup, case, checkpoint, until};
use crate::case::{Case, Lab};
use crate::cases::round_trip::SMALL;

pub(crate) const CASES: &[Case] = &[case("agent/the_daemon_takes_over", 300, takes_over)];

const ADDRESS: &str = "127.0.0.1:9559";

/// A running daemon, killed when dropped.
pub(crate) struct Daemon(Child);

impl Daemon {
    pub(crate) fn start(agent: &Agent) -> Result<Self> {
        Self::start_with(agent, &[])
    }

    /// With more arguments.
    pub(crate) fn start_with(agent: &Agent, more: &[&str]) -> Result<Self> {
        let words = ["serve", "--interval", "1s", "--listen", ADDRESS];
        let words = [&words[..], more].concat();
        let daemon = Self(agent.start(&words)?);
        until("the daemon is ready", || {
            Ok(get("/readyz").is_ok_and(|text| text.ends_with("ok\n")))
        })?;
        Ok(daemon)
    }

    /// It ends when it is told to, and well.
    pub(crate) fn end(mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.0.id())?).context("no pid")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(ADDRESS)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn shows(line: &str) -> Result<bool> {
    Ok(get("/metrics")?.lines().any(|known| known == line))
}

/// An agent that is killed while the container is frozen and its GPU queues are stopped: it goes on without anybody's
/// asking. One that was to stay frozen does.
fn takes_over(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-1")?;
    let agent = Agent::new(lab)?;
    let cgroup = OwnCgroup::new()?;
    let workload = cgroup.start(lab, SMALL)?;
    let pid = workload.pid.to_string();
    let daemon = Daemon::start(&agent)?;
    for point in ["checkpoint-frozen", "dump-started", "dump-done"] {
        let fault = format!("{point}=kill");
        let words = checkpoint(&pid, "--keep-frozen");
        agent.run_with(&fault, &words)?.is(-9)?;
        until("the journal is empty", || Ok(agent.journal()?.is_empty()))?;
        ensure!(!cgroup.is_frozen()?, "{point}: it is frozen");
        workload.advances().with_context(|| point)?;
        workload.prove()?;
    }
    until("it is counted", || {
        shows("rocferry_recovered_total{done=\"resumed\"} 3")
    })?;
    agent.checkpoint(&workload, "--keep-frozen")?.is(0)?;
    until("it is seen", || shows("rocferry_containers_frozen 1"))?;
    ensure!(shows("rocferry_containers_held 1")?, "{}", get("/metrics")?);
    let made = "rocferry_checkpoints_total{outcome=\"made\",reason=\"\"} 1";
    ensure!(shows(made)?, "{}", get("/metrics")?);
    daemon.end()?;
    ensure!(cgroup.is_frozen()?, "the daemon's end has thawed it");
    let daemon = Daemon::start(&agent)?;
    ensure!(cgroup.is_frozen()?, "the daemon's start has thawed it");
    // While the daemon looks every second.
    let thawed = agent.run(&["thaw", "--override", &pid])?;
    thawed.is(0)?;
    workload.advances()?;
    until("it is seen", || shows("rocferry_containers_frozen 0"))?;
    agent.is_idle()?;
    daemon.end()?;
    workload.finish()
}
