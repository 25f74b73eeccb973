//! What a store's verbs refuse before they begin, and what they say when their answer cannot be read.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::run::{Ended, agent};

fn push(dir: &Path, store: &str, more: &[&str]) -> Command {
    let mut command = agent();
    command.args(["image", "push", "--store", store]).arg(dir);
    command.args(more);
    command
}

/// A folder to store, and the URL of an empty one for the store.
fn place() -> (tempfile::TempDir, String) {
    let place = tempfile::tempdir().expect("folder");
    for name in ["from", "store"] {
        fs::create_dir(place.path().join(name)).expect("folder");
    }
    fs::write(place.path().join("from/file"), "content").expect("file");
    let url = format!("file://{}", place.path().join("store").display());
    (place, url)
}

#[test]
fn a_store_that_ends_with_the_program_is_none() {
    let (place, _) = place();
    let mut command = push(&place.path().join("from"), "memory:", &[]);
    let ended = Ended::from(command.output().expect("run"));
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("file:///DIRECTORY"), "{ended:?}");
}

#[test]
fn whom_it_is_bound_to_is_checked_before_anything_is_sent() {
    let (place, url) = place();
    let long = format!("a/b/{}/d", "c".repeat(256));
    for binding in [long.as_str(), "a/b/c\u{7}/d", "a/b/c", "a//c/d"] {
        let mut command = push(&place.path().join("from"), &url, &["--bind", binding]);
        let ended = Ended::from(command.output().expect("run"));
        assert_eq!(ended.status, 2, "{ended:?}");
        let stored = fs::read_dir(place.path().join("store")).expect("list");
        assert_eq!(stored.count(), 0, "{binding:?}");
    }
}

#[test]
fn a_name_that_cannot_be_printed_is_said_all_the_same() {
    let (place, url) = place();
    let mut command = push(&place.path().join("from"), &url, &[]);
    let full = File::options().write(true).open("/dev/full").expect("open");
    let ended = Ended::from(command.stdout(full).output().expect("run"));
    assert_eq!(ended.status, 2, "{ended:?}");
    let listed = agent()
        .args(["image", "ls", "-o", "json", "--store", &url])
        .output();
    let listed = Ended::from(listed.expect("run")).json();
    let id = listed[0]["id"].as_str().expect("one checkpoint");
    assert!(ended.stderr.contains(id), "{ended:?}");
}
