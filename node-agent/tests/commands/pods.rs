//! Verbs about pods to be restored, as far as they go without CRIU and without cgroups.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::run::{Ended, agent};

const POD: [&str; 2] = ["--pod-uid", "u-1"];

fn run(state: &Path, words: &[&str]) -> Ended {
    let mut agent = agent();
    agent.args(words).env("ROCFERRY_STATE", state);
    agent.output().expect("run").into()
}

fn on_pod(state: &Path, verb: &str, words: &[&str]) -> Ended {
    run(state, &[&[verb], &POD[..], words].concat())
}

fn state() -> tempfile::TempDir {
    let state = tempfile::tempdir().expect("a folder");
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).expect("mode");
    state
}

fn ticket(state: &Path, name: &str, ticket_state: &serde_json::Value) {
    let folder = state.join("tickets");
    fs::create_dir_all(&folder).expect("made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("mode");
    let ticket = json!({
        "version": 1, "checkpoint": "the-checkpoint", "images": "/i", "held": true,
        "onContainerRestart": "Refuse", "state": ticket_state, "lastError": "no such mount",
    });
    fs::write(
        folder.join(format!("pod_u-1_{name}.json")),
        ticket.to_string(),
    )
    .expect("written");
}

#[test]
fn a_decision_is_taken_once() {
    let state = state();
    let decide = |words: &[&str]| on_pod(state.path(), "decide", words);
    assert_eq!(decide(&["commit"]).status, 0);
    assert_eq!(decide(&["commit", "--source", "fenced"]).status, 0);
    let refused = decide(&["abort"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("decided once"), "{refused:?}");
    let refused = run(state.path(), &["decide", "--pod-uid", "../x", "abort"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(!state.path().join("x.json").exists());
}

#[test]
fn a_pod_is_thawed_only_as_a_whole_and_when_that_is_decided() {
    let state = state();
    let thaw = |words: &[&str]| on_pod(state.path(), "thaw", words);
    let stays = |words: &[&str], why: &str| {
        let ended = thaw(words);
        assert_eq!(ended.status, 1, "{ended:?}");
        assert!(ended.stderr.contains(why), "{why}: {ended:?}");
    };
    stays(&[], "not committed yet");
    stays(&["--override"], "Nothing is prepared");
    ticket(state.path(), "a", &json!({ "is": "ready" }));
    let gone = "/sys/fs/cgroup/nothing-of-this-name";
    ticket(
        state.path(),
        "b",
        &json!({ "is": "held", "container": "c", "cgroup": gone }),
    );
    stays(
        &["--override"],
        "the container a of pod u-1 is not there yet",
    );
    stays(&["--override"], "the container b of pod u-1 has ended");
    assert_eq!(on_pod(state.path(), "decide", &["abort"]).status, 0);
    stays(&[], "aborted");
    let shown = run(state.path(), &["status"]);
    for word in ["POD", "the-checkpoint", "held", "aborted", "no such mount"] {
        assert!(shown.stdout.contains(word), "{word}: {shown:?}");
    }
    let shown = run(state.path(), &["status", "--tickets", "--json"]).json();
    assert_eq!(shown.as_array().map(Vec::len), Some(2), "{shown}");
    assert_eq!(
        (&shown[0]["container"], &shown[1]["state"]),
        (&json!("a"), &json!("held"))
    );
    assert_eq!(run(state.path(), &["status", "--json"]).json(), json!([]));
    assert_eq!(on_pod(state.path(), "discard", &[]).status, 0);
    assert_eq!(run(state.path(), &["status", "--tickets"]).stdout, "");
}

#[test]
fn a_damaged_ticket_or_decision_is_never_overlooked() {
    let state = state();
    ticket(state.path(), "a", &json!({ "is": "red" }));
    for verb in [
        &["status"][..],
        &["thaw", "--pod-uid", "u-1", "--override"],
        &["discard", "--pod-uid", "u-1"],
    ] {
        let ended = run(state.path(), verb);
        assert_eq!(ended.status, 2, "{verb:?}: {ended:?}");
        assert!(
            ended.stderr.contains("pod_u-1_a.json"),
            "{verb:?}: {ended:?}"
        );
    }
    fs::remove_dir_all(state.path().join("tickets")).expect("removed");
    fs::create_dir(state.path().join("decisions")).expect("made");
    fs::write(state.path().join("decisions/u-1.json"), "{").expect("written");
    let ended = on_pod(state.path(), "thaw", &["--override"]);
    assert_eq!(ended.status, 2, "{ended:?}");
}

#[test]
fn fences_go_up_and_come_down() {
    let state = state();
    let containers = ["--container", "a", "--container", "b"];
    assert_eq!(on_pod(state.path(), "fence", &containers).status, 0);
    let fence = state.path().join("fences/pod_u-1_b.json");
    let text = fs::read_to_string(&fence).expect("a fence");
    assert!(text.contains("by hand"), "{text}");
    assert_eq!(on_pod(state.path(), "unfence", &containers).status, 0);
    assert!(!fence.exists());
    assert_eq!(on_pod(state.path(), "unfence", &containers).status, 0);
    assert_eq!(on_pod(state.path(), "fence", &[]).status, 2);
}

#[test]
fn nothing_is_prepared_from_whoever_comes() {
    let state = state();
    let store = tempfile::tempdir().expect("a folder");
    let tree = tempfile::tempdir().expect("a folder");
    fs::write(tree.path().join("inventory.img"), "x").expect("written");
    let url = format!("file://{}", store.path().display());
    let push = [
        "image",
        "push",
        "--store",
        &url,
        tree.path().to_str().expect("text"),
    ];
    let id = run(state.path(), &push);
    let id = id.stdout.trim().to_owned();
    let prepare = |words: &[&str]| {
        let fixed = ["--from", &url, &id];
        on_pod(state.path(), "prepare", &[&fixed[..], words].concat())
    };
    let ended = prepare(&[]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("--for"), "{ended:?}");
    let ended = prepare(&["--for", "team/train"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("No key is trusted"), "{ended:?}");
    let key = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
    let ended = prepare(&["--for", "team/train", "--trust", key]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("It is not signed"), "{ended:?}");
    assert!(!state.path().join("restores").exists());
}
