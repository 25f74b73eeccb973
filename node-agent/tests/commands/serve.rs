//! The daemon.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::run::agent;

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A daemon, killed when dropped.
struct Daemon {
    child: Child,
    log: BufReader<ChildStderr>,
    address: SocketAddr,
}

impl Daemon {
    fn start(state: &Path, more: &[&str]) -> Self {
        let mut command = agent();
        command
            .args(["serve", "--log-format", "json", "--listen", "127.0.0.1:0"])
            .args(["--interval", "1s", "--settings", "/nowhere/agent.json"])
            .arg("--state")
            .arg(state)
            .args(more)
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let log = child.stderr.take().map(BufReader::new).expect("piped");
        let mut daemon = Self {
            child,
            log,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let started = daemon.says("Started");
        let address = started["address"].as_str().expect("an address");
        daemon.address = address.parse().expect("an address");
        daemon
    }

    /// The next line of the log that says this.
    fn says(&mut self, words: &str) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.log.read_line(&mut line).expect("the log");
            assert!(read > 0, "it never says {words}");
            let value: Value = serde_json::from_str(&line).expect("JSON alone");
            if value["message"] == words {
                return value;
            }
        }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let status = text.split(' ').nth(1).expect("a status");
        let body = text.split_once("\r\n\r\n").expect("a body").1.to_owned();
        (status.parse().expect("a number"), body)
    }

    fn until(&self, path: &str, what: &str, is: impl Fn(u16, &str) -> bool) {
        let begun = Instant::now();
        loop {
            let (status, body) = self.get(path);
            if is(status, &body) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "never {what}: {status} {body}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn ends(mut self) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
        self.says("Ended");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn record(id: &str, boot: &str, spool: Option<&Path>) -> Value {
    json!({
        "version": 1, "id": id, "boot": boot, "begun_ms": 1,
        "subject": {"runtime": "bare", "name": "17", "id": "17", "init": null, "cgroup": null, "program": null, "root": null},
        "work": "checkpoint", "phase": "criu", "after": "stop", "was_frozen": false,
        "spool": spool, "checkpoint": null
    })
}

#[test]
fn what_is_left_is_put_right_at_the_start_and_later() {
    let state = tempfile::tempdir().expect("a folder");
    let journal = state.path().join("journal");
    fs::create_dir_all(&journal).expect("made");
    let spool = state.path().join("spool/checkpoint-1");
    fs::create_dir_all(spool.join("tree")).expect("made");
    let put = |id: &str, spool| {
        let text = record(id, "another", spool).to_string();
        fs::write(journal.join(format!("{id}.json")), text).expect("written");
    };
    put("checkpoint-1", Some(spool.as_path()));
    let daemon = Daemon::start(state.path(), &[]);
    daemon.until("/readyz", "ready", |status, _| status == 200);
    assert!(!spool.exists());
    put("checkpoint-2", None);
    daemon.until("/metrics", "put right", |_, text| {
        text.contains("rocferry_recovered_total{done=\"forgotten\"} 2\n")
    });
    assert!(!journal.join("checkpoint-2.json").exists());
    daemon.ends();
}

#[test]
fn a_record_that_cannot_be_read_is_a_matter_of_readiness() {
    let state = tempfile::tempdir().expect("a folder");
    let journal = state.path().join("journal");
    fs::create_dir_all(&journal).expect("made");
    let path = journal.join("checkpoint-1.json");
    fs::write(&path, "{").expect("written");
    let mut daemon = Daemon::start(state.path(), &[]);
    let said = daemon.says("Not everything is put right");
    let problem = said["problem"].as_str().expect("text");
    assert!(problem.contains("checkpoint-1.json"), "{problem}");
    let (status, body) = daemon.get("/readyz");
    assert_eq!(status, 503);
    assert!(body.contains("checkpoint-1.json"), "{body}");
    assert_eq!(daemon.get("/healthz").0, 200);
    let metrics = daemon.get("/metrics").1;
    assert!(
        metrics.contains("rocferry_journal_readable 0\n"),
        "{metrics}"
    );
    fs::remove_file(&path).expect("removed");
    daemon.until("/readyz", "ready", |status, _| status == 200);
    daemon.ends();
}

#[test]
fn work_of_the_command_line_is_counted() {
    let state = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(state.path(), &[]);
    let mut command = agent();
    let words = [
        "--runtime",
        "bare",
        "--criu",
        "/nowhere/criu",
        "--to",
        "memory:",
    ];
    let own = std::process::id().to_string();
    command.arg("checkpoint").args(words).arg(&own);
    command.arg("--state").arg(state.path());
    let ended = command.output().expect("run");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let (_, text) = daemon.get("/metrics");
    let wanted = "rocferry_checkpoints_total{outcome=\"refused\",reason=\"\"} 1\n";
    assert!(text.contains(wanted), "{text}");
    assert_eq!(daemon.get("/elsewhere").0, 404);
    daemon.ends();
}

#[test]
fn settings_that_make_no_sense_keep_it_from_starting() {
    let dir = tempfile::tempdir().expect("a folder");
    let settings = dir.path().join("agent.json");
    fs::write(&settings, "{\"watch\":1}").expect("written");
    let mut command = agent();
    command.args(["serve", "--log-format", "json", "--settings"]);
    command.arg(&settings).arg("--state").arg(dir.path());
    let ended = command.output().expect("run");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let text = String::from_utf8(ended.stderr).expect("text");
    let line: Value = serde_json::from_str(text.trim()).expect("one line of JSON");
    let message = line["message"].as_str().expect("text");
    assert!(message.contains("agent.json cannot be used"), "{line}");
    assert!(line["next_step"].is_string(), "{line}");
}
