//! `rocferry-agent image`: a store in a directory, as users use it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program on the store below `dir`; `key` is the name of a key file there.
fn agent(dir: &Path, key: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocferry-agent"));
    command.arg("image").args(args);
    for name in [
        "ROCFERRY_KEY_FILE",
        "ROCFERRY_IDENTITY",
        "ROCFERRY_TRUST",
        "ROCFERRY_SIGN_KEY",
    ] {
        command.env_remove(name);
    }
    command.env(
        "ROCFERRY_STORE",
        format!("file://{}", dir.join("store").display()),
    );
    if let Some(key) = key {
        command.env("ROCFERRY_KEY_FILE", dir.join(key));
    }
    command.output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it prints, if it ends like this.
fn prints(dir: &Path, key: Option<&str>, args: &[&str], code: i32) -> String {
    let output = agent(dir, key, args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}{err}");
    out + &err
}

fn json(dir: &Path, key: Option<&str>, args: &[&str]) -> serde_json::Value {
    let output = agent(dir, key, args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else")
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let (mut files, mut waiting) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(place) = waiting.pop() {
        for file in fs::read_dir(place).into_iter().flatten() {
            let path = file.expect("file").path();
            match path.is_dir() {
                true => waiting.push(path),
                false => files.push(path),
            }
        }
    }
    files
}

/// A directory with a store, a key and something to store.
fn place() -> tempfile::TempDir {
    let temp = tempfile::tempdir().expect("directory");
    let dir = temp.path();
    fs::create_dir(dir.join("store")).expect("directory");
    fs::create_dir_all(dir.join("from/checkpoint")).expect("directory");
    fs::write(dir.join("key"), [7; 32]).expect("key");
    fs::write(dir.join("other"), [8; 32]).expect("key");
    fs::write(dir.join("from/checkpoint/inventory.img"), "inventory").expect("file");
    fs::write(
        dir.join("from/checkpoint/pages-1.img"),
        "pages".repeat(1000),
    )
    .expect("file");
    temp
}

#[test]
fn a_checkpoint_is_stored_looked_at_read_and_deleted() {
    let temp = place();
    let dir = temp.path();
    let path = |name: &str| dir.join(name).display().to_string();
    let key = Some("key");
    let first = prints(dir, key, &["push", &path("from")], 0);
    let first = first.lines().next().expect("a name").to_owned();
    fs::write(dir.join("from/more"), "more").expect("file");
    let second = json(
        dir,
        key,
        &["push", &path("from"), "--parent", &first, "-o", "json"],
    );
    assert_eq!(second["known_bytes"], 5009);
    let second = second["id"].as_str().expect("a name").to_owned();
    let listed = json(dir, key, &["ls", "-o", "json"]);
    let names: Vec<_> = listed
        .as_array()
        .expect("list")
        .iter()
        .map(|one| one["id"].as_str().expect("id"))
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.contains(&first.as_str()) && names.contains(&second.as_str()));
    let table = prints(dir, key, &["ls"], 0);
    assert!(
        table.starts_with("CHECKPOINT") && table.contains(&first),
        "{table}"
    );
    let inspected = prints(dir, key, &["inspect", &second], 0);
    assert!(
        inspected.contains("checkpoint/pages-1.img") && inspected.contains(&first),
        "{inspected}"
    );
    let diff = prints(dir, key, &["diff", &first, &second], 0);
    assert!(diff.contains("more") && diff.contains("added"), "{diff}");
    let verified = prints(dir, key, &["verify", "--deep"], 0);
    assert!(verified.contains("no faults"), "{verified}");
    prints(dir, key, &["pull", &second, &path("to")], 0);
    assert_eq!(fs::read(dir.join("to/more")).expect("file"), b"more");
    let again = prints(dir, key, &["pull", &second, &path("to")], 2);
    assert!(
        again.contains("is not empty") && again.contains("Name a directory"),
        "{again}"
    );
    // A cache: the second time nothing is fetched.
    let cached = |to: &str| {
        json(
            dir,
            key,
            &[
                "pull",
                &second,
                &path(to),
                "--cache",
                &path("cache"),
                "-o",
                "json",
            ],
        )
    };
    assert_ne!(cached("to2")["fetched_bytes"], 0);
    assert_eq!(cached("to3")["fetched_bytes"], 0);
    prints(dir, key, &["pin", &second, "--reason", "needed"], 0);
    let refused = prints(dir, key, &["rm", &second, &first], 1);
    assert!(
        refused.contains("pinned: needed") && refused.contains(&format!("{first} deleted")),
        "{refused}"
    );
    prints(dir, key, &["unpin", &second], 0);
    prints(dir, key, &["rm", &second], 0);
    prints(dir, key, &["gc", "--grace", "0s"], 0);
    prints(dir, key, &["gc", "--grace", "0s"], 0);
    assert_eq!(files(&dir.join("store/default/packs")).len(), 0);
    let gone = prints(dir, key, &["pull", &second, &path("to4")], 2);
    assert!(
        gone.contains("no checkpoint") && gone.contains("image ls"),
        "{gone}"
    );
}

#[test]
fn keys_signatures_and_damage_are_told() {
    let temp = place();
    let dir = temp.path();
    let path = |name: &str| dir.join(name).display().to_string();
    let openssl = |args: &[&str]| {
        let done = Command::new("openssl")
            .args(args)
            .output()
            .expect("openssl");
        assert!(done.status.success(), "{}", text(&done.stderr));
    };
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", &path("sign")]);
    openssl(&[
        "pkey",
        "-in",
        &path("sign"),
        "-pubout",
        "-out",
        &path("public"),
    ]);
    let key = Some("key");
    let unsigned = prints(dir, key, &["push", &path("from")], 0);
    let unsigned = unsigned.lines().next().expect("a name").to_owned();
    let bound = "team/1234/pod/main";
    let signed = prints(
        dir,
        key,
        &[
            "push",
            &path("from"),
            "--sign",
            &path("sign"),
            "--bind",
            bound,
        ],
        0,
    );
    let signed = signed.lines().next().expect("a name").to_owned();
    let trust = path("public");
    prints(
        dir,
        key,
        &["pull", &signed, &path("to"), "--trust", &trust],
        0,
    );
    let refused = prints(
        dir,
        key,
        &["pull", &unsigned, &path("to2"), "--trust", &trust],
        2,
    );
    assert!(refused.contains("It is not signed"), "{refused}");
    prints(
        dir,
        key,
        &[
            "pull",
            &unsigned,
            &path("to2"),
            "--trust",
            &trust,
            "--allow-unsigned",
        ],
        0,
    );
    let table = prints(dir, key, &["ls"], 0);
    assert!(table.contains("team/pod/main"), "{table}");
    let wrong = prints(dir, Some("other"), &["ls"], 2);
    assert!(
        wrong.contains("key-file:") && wrong.contains("Give the right key"),
        "{wrong}"
    );
    prints(dir, None, &["ls"], 2);
    // A byte in a pack.
    let pack = files(&dir.join("store/default/packs"))
        .pop()
        .expect("a pack");
    let mut bytes = fs::read(&pack).expect("pack");
    bytes[60] ^= 1;
    fs::write(&pack, bytes).expect("pack");
    let faults = prints(dir, key, &["verify", "--deep"], 1);
    assert!(
        faults.contains("is damaged") && faults.contains("cannot be restored"),
        "{faults}"
    );
    let broken = prints(dir, key, &["pull", &signed, &path("to3")], 2);
    assert!(broken.contains("damaged"), "{broken}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let temp = place();
    let dir = temp.path();
    let path = |name: &str| dir.join(name).display().to_string();
    for (args, expected) in [
        (vec!["pull", "nonsense", "x"], "name of a checkpoint"),
        (
            vec!["push", "--tenant", "No/Tenant", &path("from")],
            "is no tenant",
        ),
        (vec!["push", "--bind", "a/b", &path("from")], "NAMESPACE"),
        (vec!["gc", "--grace", "soon"], "36h"),
        (vec!["prune"], "required"),
        (vec!["push", &path("nowhere")], "nowhere"),
        (vec!["ls", "--store", "ftp://x"], "file, s3, oci"),
    ] {
        let said = prints(dir, None, &args, 2);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    // Nothing is listed, and no lease is left.
    let listed = json(dir, None, &["ls", "-o", "json"]);
    assert_eq!(listed, serde_json::json!([]));
    assert_eq!(files(&dir.join("store/default/leases")).len(), 0);
}

#[test]
fn old_checkpoints_are_pruned_by_rules() {
    let temp = place();
    let dir = temp.path();
    let from = dir.join("from").display().to_string();
    for _ in 0..3 {
        prints(dir, None, &["push", &from], 0);
    }
    prints(
        dir,
        None,
        &["push", &from, "--bind", "team/1234/pod/main"],
        0,
    );
    let would = prints(dir, None, &["prune", "--keep-last", "1", "--dry-run"], 0);
    assert_eq!(would.matches("would be deleted").count(), 2, "{would}");
    prints(dir, None, &["prune", "--keep-last", "1"], 0);
    let listed = json(dir, None, &["ls", "-o", "json"]);
    assert_eq!(listed.as_array().expect("list").len(), 2);
}

#[test]
fn an_archive_is_imported_and_exported() {
    let temp = place();
    let dir = temp.path();
    let path = |name: &str| dir.join(name).display().to_string();
    let digest = "a".repeat(64);
    let config = format!(
        r#"{{"id":"{digest}","name":"work","rootfsImageRef":"{digest}","rootfsImageName":"localhost/work:1"}}"#
    );
    fs::write(dir.join("from/config.dump"), config).expect("file");
    let spec = r#"{"annotations":{"io.kubernetes.cri-o.Annotations":"{}"},"mounts":[]}"#;
    fs::write(dir.join("from/spec.dump"), spec).expect("file");
    let tar = Command::new("tar")
        .args(["-C", &path("from"), "-czf", &path("in.tar.gz"), "."])
        .status();
    assert!(tar.expect("tar").success());
    let imported = prints(dir, None, &["import", &path("in.tar.gz")], 0);
    let id = imported.lines().next().expect("a name").to_owned();
    let inspected = prints(dir, None, &["inspect", &id], 0);
    assert!(inspected.contains("localhost/work:1"), "{inspected}");
    prints(
        dir,
        None,
        &["export", &id, &path("out.tar"), "--for", "cri-o"],
        0,
    );
    let said = prints(
        dir,
        None,
        &["export", &id, &path("out.tar"), "--for", "cri-o"],
        2,
    );
    assert!(said.contains("Name a file that is not there yet"), "{said}");
    let listed = Command::new("tar")
        .args(["-tf", &path("out.tar")])
        .output()
        .expect("tar");
    assert!(text(&listed.stdout).contains("checkpoint/pages-1.img"));
    prints(
        dir,
        None,
        &[
            "export",
            &id,
            &path("image.tar"),
            "--for",
            "cri-o",
            "--image",
            "--name",
            "localhost/cp:1",
        ],
        0,
    );
    prints(dir, None, &["import", "--image", &path("image.tar")], 0);
    // What cannot be exported leaves no file.
    let hostile = prints(dir, None, &["import", &path("key")], 2);
    assert!(hostile.contains("cannot be imported"), "{hostile}");
    let other = prints(dir, None, &["push", &path("store")], 0);
    let other = other.lines().next().expect("a name");
    prints(
        dir,
        None,
        &["export", other, &path("none.tar"), "--for", "podman"],
        2,
    );
    assert!(!dir.join("none.tar").exists());
}
