//! Whatever is installed, and whoever changes files meanwhile: what was there comes back.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;

use super::change::Change;
use super::containerd::{Containerd, undo};
use super::file::Content;
use super::host::Host;
use super::put::put;
use super::record::Record;
use super::take::take;

const PATH: &str = "/usr/lib/criu/amdgpu_plugin.so";

#[derive(Clone, Debug)]
enum Step {
    Install(u8),
    /// Installing stops after it is written down.
    Cut(u8),
    /// Somebody else writes the file.
    Write(u8),
    Remove,
    Uninstall,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..3u8).prop_map(Step::Install),
        (0..3u8).prop_map(Step::Cut),
        (0..5u8).prop_map(Step::Write),
        Just(Step::Remove),
        Just(Step::Uninstall),
    ];
    prop::collection::vec(step, 1..12)
}

fn content(number: u8) -> Content {
    Content::File {
        bytes: vec![number; 100],
        mode: 0o644,
    }
}

/// What is there, and what ours is and has replaced.
#[derive(Debug, Default)]
struct Model {
    file: Option<u8>,
    ours: Option<(u8, Option<u8>)>,
}

impl Model {
    fn install(&mut self, new: u8, cut: bool) {
        let before = match (self.file, self.ours) {
            (Some(file), Some((ours, before))) if file == ours || file == new => before,
            (Some(file), _) => Some(file),
            (None, Some((_, before))) => before,
            (None, None) => None,
        };
        self.ours = Some((new, before));
        if !cut {
            self.file = Some(new);
        }
    }

    /// Whether all is as it was.
    fn uninstall(&mut self) -> bool {
        let Some((ours, before)) = self.ours else {
            return true;
        };
        match self.file {
            Some(file) if Some(file) != before && file != ours => return false,
            _ => self.file = before,
        }
        self.ours = None;
        true
    }
}

proptest! {
    // Every step waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_there_comes_back(steps in steps()) {
        let root = tempfile::tempdir().expect("folder");
        let host = Host::new(root.path());
        let real = host.real(Path::new(PATH));
        let state = root.path().join("state");
        let mut model = Model::default();
        for step in steps {
            let mut record = Record::open(&state).expect("record");
            match step {
                Step::Install(number) => {
                    put(&host, &mut record, Path::new(PATH), &content(number)).expect("put");
                    model.install(number, false);
                }
                Step::Cut(number) => {
                    put(&host, &mut record, Path::new(PATH), &content(number)).expect("put");
                    // As if the file had not been written yet.
                    match model.file {
                        Some(file) => content(file).write(&real).expect("write"),
                        None => fs::remove_file(&real).expect("remove"),
                    }
                    model.install(number, true);
                }
                Step::Write(number) => {
                    fs::create_dir_all(real.parent().expect("parent")).expect("folder");
                    content(number).write(&real).expect("write");
                    model.file = Some(number);
                }
                Step::Remove => {
                    let _ = fs::remove_file(&real);
                    model.file = None;
                }
                Step::Uninstall => {
                    let changes: Vec<Change> = record.changes().iter().rev().cloned().collect();
                    let mut left = false;
                    for change in &changes {
                        left |= take(&host, &mut record, change).expect("undone").is_some();
                    }
                    prop_assert_eq!(model.uninstall(), !left);
                    record.close().expect("closed");
                    prop_assert_eq!(state.join("install.json").exists(), left);
                }
            }
            prop_assert_eq!(Content::read(&real).expect("read"), model.file.map(content));
        }
    }
}

#[test]
fn one_at_a_time() {
    let state = tempfile::tempdir().expect("folder");
    let record = Record::open(state.path()).expect("record");
    assert!(matches!(
        Record::open(state.path()),
        Err(super::InstallError::Busy)
    ));
    drop(record);
    Record::open(state.path()).expect("record");
}

#[test]
fn a_record_that_makes_no_sense_is_an_error() {
    for text in [
        "",
        "{",
        "[]",
        r#"{"version":2,"changes":[]}"#,
        r#"{"version":1}"#,
    ] {
        let state = tempfile::tempdir().expect("folder");
        fs::write(state.path().join("install.json"), text).expect("file");
        let error = Record::open(state.path()).expect_err(text);
        assert!(error.to_string().contains("install.json"), "{error}");
    }
}

fn containerd(host: &Host) -> Containerd<'_> {
    Containerd {
        host,
        program: PathBuf::from("/usr/bin/containerd"),
        config: Path::new("/etc/containerd/config.toml"),
        prefix: Path::new("/usr/libexec/rocferry"),
    }
}

const SITE: &str = r#"# The site's own.
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry/pause:3" # ours
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "amd"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd.options]
    BinaryName = "/usr/bin/crun"
    SystemdCgroup = true
"#;

#[test]
fn a_runtime_is_added_to_a_sites_file_and_taken_out_again() {
    let root = tempfile::tempdir().expect("folder");
    let host = Host::new(root.path());
    let containerd = containerd(&host);
    let dump = toml_edit::de::from_str(SITE).expect("TOML");
    let entry = containerd.entry(&dump).expect("entry");
    // The site's default runtime, wrapped: its program and its cgroup driver are kept.
    let expected = json!({
        "runtime_type": "io.containerd.runc.v2",
        "pod_annotations": ["rocferry.dev/*"],
        "options": {"BinaryName": "/usr/libexec/rocferry/rocferry-crun", "SystemdCgroup": true},
    });
    assert_eq!(entry, expected);
    let with = containerd.with(SITE, &entry).expect("text");
    assert!(
        with.starts_with("# The site's own.\n") && with.contains("# ours"),
        "{with}"
    );
    let parsed: serde_json::Value = toml_edit::de::from_str(&with).expect("TOML");
    let path = "/plugins/io.containerd.grpc.v1.cri/containerd/runtimes/rocferry";
    assert_eq!(parsed.pointer(path), Some(&expected));

    // Changed by the site since: the rest of it stays.
    let record = Record::open(&root.path().join("state")).expect("record");
    let real = host.real(containerd.config);
    fs::create_dir_all(real.parent().expect("parent")).expect("folder");
    fs::write(&real, with.replace("pause:3", "pause:4")).expect("file");
    let left = undo(&host, &record, containerd.config, "another", "none").expect("undone");
    assert_eq!(left, None);
    let now = fs::read_to_string(&real).expect("file");
    assert_eq!(now, SITE.replace("pause:3", "pause:4"));
}

#[test]
fn files_that_cannot_take_a_runtime_are_refused() {
    let root = tempfile::tempdir().expect("folder");
    let host = Host::new(root.path());
    let containerd = containerd(&host);
    let entry = json!({"runtime_type": "io.containerd.runc.v2"});
    for (text, word) in [
        ("", "version = 2"),
        ("version = 1", "version = 2"),
        ("version = 3\nplugins = 5", "no table"),
        ("version = ", "TOML"),
    ] {
        let error = containerd.with(text, &entry).expect_err(text);
        assert!(error.to_string().contains(word), "{error}");
    }
    let other = json!({"plugins": {"io.containerd.cri.v1.runtime": {"containerd": {
        "default_runtime_name": "kata",
        "runtimes": {"kata": {"runtime_type": "io.containerd.kata.v2"}},
    }}}});
    let error = containerd.entry(&other).expect_err("another shim");
    assert!(
        error.to_string().contains("io.containerd.runc.v2"),
        "{error}"
    );
    let error = containerd
        .entry(&json!({"plugins": {}}))
        .expect_err("no CRI");
    assert!(error.to_string().contains("Kubernetes"), "{error}");
}

/// Installed again, over a file that the site has changed since, or that was not there before: what comes back has no
/// runtime of ours in it.
#[test]
fn a_second_installation_keeps_nothing_of_the_first() {
    let root = tempfile::tempdir().expect("folder");
    let host = Host::new(root.path());
    let containerd = containerd(&host);
    let real = host.real(containerd.config);
    fs::create_dir_all(real.parent().expect("parent")).expect("folder");
    let entry = json!({"runtime_type": "io.containerd.runc.v2"});
    let file = |text: &str| Content::File {
        bytes: text.as_bytes().to_vec(),
        mode: 0o644,
    };
    let with = file(&containerd.with(SITE, &entry).expect("text"));
    let undo_all = |record: &mut Record| {
        for change in record.changes().iter().rev().cloned().collect::<Vec<_>>() {
            assert_eq!(take(&host, record, &change).expect("undone"), None);
        }
    };
    let mut record = Record::open(&root.path().join("state")).expect("record");
    // The site's own file, changed by the site after the first time.
    file(SITE).write(&real).expect("file");
    containerd
        .replace(&mut record, &file(SITE), &with)
        .expect("added");
    let changed = SITE.replace("pause:3", "pause:4");
    let newer = file(&containerd.with(&changed, &entry).expect("text"));
    newer.write(&real).expect("file");
    containerd
        .replace(&mut record, &newer, &newer)
        .expect("again");
    undo_all(&mut record);
    assert_eq!(fs::read_to_string(&real).expect("file"), changed);
    // None before.
    fs::remove_file(&real).expect("gone");
    put(&host, &mut record, containerd.config, &with).expect("made");
    containerd
        .replace(&mut record, &with, &newer)
        .expect("again");
    undo_all(&mut record);
    assert!(!real.exists());
}
