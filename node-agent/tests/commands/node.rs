//! Verbs that work on containers, as far as they go without CRIU and without cgroups.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::run::{Ended, agent};

fn run(state: &Path, words: &[&str]) -> Ended {
    let mut agent = agent();
    agent.args(words).arg("--state").arg(state);
    agent.output().expect("run").into()
}

/// A process that does nothing, killed when dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let child = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("sleep"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn record(id: &str, spool: Option<&Path>) -> Value {
    json!({
        "version": 1, "id": id, "boot": "another", "begun_ms": 1,
        "subject": {"runtime": "bare", "name": "17", "id": "17", "init": null, "cgroup": null, "program": null, "root": null},
        "work": "checkpoint", "phase": "criu", "after": "stop", "was_frozen": false,
        "spool": spool, "checkpoint": null
    })
}

#[test]
fn a_node_on_which_nothing_was_done_has_nothing() {
    let state = tempfile::tempdir().expect("a folder");
    let ended = run(state.path(), &["status"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.stdout, "Nothing is frozen, held or under way\n");
    assert_eq!(run(state.path(), &["status", "--json"]).json(), json!([]));
    assert_eq!(run(state.path(), &["recover", "--json"]).json(), json!([]));
    let ended = run(state.path(), &["thaw", "17"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.stderr.contains("17 is not held here"), "{ended:?}");
}

#[test]
fn without_criu_nothing_is_touched() {
    let state = tempfile::tempdir().expect("a folder");
    let sleeper = Sleeper::start();
    let store = format!("file://{}", state.path().display());
    let pid = sleeper.pid();
    let words = [
        "checkpoint",
        "--runtime",
        "bare",
        "--criu",
        "/nowhere/criu",
        "--json",
        "--to",
        &store,
        &pid,
    ];
    let ended = run(state.path(), &words);
    assert_eq!(ended.status, 1, "{ended:?}");
    let report = ended.json();
    assert_eq!(report["findings"][0]["about"], "criu", "{report}");
    assert_eq!(report["id"], Value::Null);
    assert_eq!(run(state.path(), &["status", "--json"]).json(), json!([]));
    let spool = fs::read_dir(state.path().join("spool")).expect("made");
    assert_eq!(spool.count(), 0);
}

#[test]
fn a_container_that_is_not_there_is_named() {
    let state = tempfile::tempdir().expect("a folder");
    let root = state.path().display().to_string();
    for (words, text) in [
        (
            vec!["--runtime", "bare", "4294967"],
            "No container 4294967 of no runtime",
        ),
        (
            vec!["--runtime", "runc", "--runtime-root", &root, "job"],
            "No container job of an OCI runtime in /",
        ),
        (
            vec![
                "--runtime",
                "podman",
                "--runtime-program",
                "/nowhere/podman",
                "job",
            ],
            "Cannot run /nowhere/podman",
        ),
    ] {
        let words: Vec<&str> = ["checkpoint", "--to", "memory:"]
            .into_iter()
            .chain(words)
            .collect();
        let ended = run(state.path(), &words);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
}

#[test]
fn what_was_there_before_a_reboot_is_forgotten() {
    let state = tempfile::tempdir().expect("a folder");
    run(state.path(), &["status"]);
    let spool = state.path().join("spool/checkpoint-1");
    fs::create_dir_all(spool.join("tree")).expect("made");
    let path = state.path().join("journal/checkpoint-1.json");
    let text = record("checkpoint-1", Some(&spool)).to_string();
    fs::write(&path, text).expect("written");
    let status = run(state.path(), &["status", "--json"]).json();
    assert_eq!(status[0]["phase"], "criu", "{status}");
    let done = run(state.path(), &["recover", "--json"]).json();
    assert_eq!(done[0]["done"], "forgotten", "{done}");
    assert!(!spool.exists() && !path.exists());
}

#[test]
fn a_record_that_cannot_be_read_stops_everything() {
    let state = tempfile::tempdir().expect("a folder");
    run(state.path(), &["status"]);
    let path = state.path().join("journal/checkpoint-1.json");
    let mut newer = record("checkpoint-1", None);
    newer["version"] = json!(3);
    for text in ["{", &newer.to_string()] {
        fs::write(&path, text).expect("written");
        for words in [&["status"][..], &["recover"], &["thaw", "17"]] {
            let ended = run(state.path(), words);
            assert_eq!(ended.status, 2, "{ended:?}");
            assert!(ended.stderr.contains("checkpoint-1.json"), "{ended:?}");
        }
    }
}

#[test]
fn a_record_cannot_name_a_folder_of_others() {
    let state = tempfile::tempdir().expect("a folder");
    let others = tempfile::tempdir().expect("a folder");
    run(state.path(), &["status"]);
    let path = state.path().join("journal/checkpoint-1.json");
    let text = record("checkpoint-1", Some(others.path())).to_string();
    fs::write(&path, text).expect("written");
    let ended = run(state.path(), &["recover", "--json"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(others.path().is_dir() && path.exists());
}
