//! `rocferry-agent image`: a store in a directory, as users use it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rocferry_image::{BoEntry, FdDir, FileId, names, write_image};
use rocferry_topology::BoFlags;

use crate::machines::{Dump, of_nodes, system};

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
fn keys_are_rotated_and_wrapped_for_others() {
    let temp = place();
    let dir = temp.path();
    let path = |name: &str| dir.join(name).display().to_string();
    let key = Some("key");
    let id = |said: String| said.lines().next().expect("a name").to_owned();
    let old = id(prints(dir, key, &["push", &path("from")], 0));
    let before = prints(dir, key, &["keys", "show"], 0);
    prints(dir, key, &["keys", "rotate"], 0);
    assert_ne!(before, prints(dir, key, &["keys", "show"], 0));
    // Nothing is shared between keys; both can be read.
    let new = json(dir, key, &["push", &path("from"), "-o", "json"]);
    assert_eq!(new["known_bytes"], 0);
    prints(dir, key, &["pull", &old, &path("old")], 0);
    let new = new["id"].as_str().expect("a name").to_owned();
    let said = prints(dir, key, &["diff", &old, &new], 2);
    assert!(said.contains("cannot be compared"), "{said}");
    let rewrapped = prints(
        dir,
        key,
        &["keys", "rewrap", "--new-key-file", &path("other")],
        0,
    );
    assert!(rewrapped.starts_with("2 data keys"), "{rewrapped}");
    prints(dir, key, &["ls"], 2);
    prints(dir, Some("other"), &["pull", &new, &path("new")], 0);
    prints(dir, Some("other"), &["keys", "rewrap"], 2);
    prints(dir, None, &["verify"], 2);
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
    // Looking makes no store, nor a tenant's part of one.
    for verb in ["ls", "verify", "gc"] {
        let said = prints(dir, None, &[verb, "--tenant", "other"], 2);
        assert!(said.contains("There is no store here"), "{said}");
    }
    assert!(!dir.join("store/other").exists());
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
    fs::create_dir(dir.join("bare")).expect("directory");
    fs::write(dir.join("bare/file"), "no checkpoint of an engine").expect("file");
    let other = prints(dir, None, &["push", &path("bare")], 0);
    let other = other.lines().next().expect("a name");
    prints(
        dir,
        None,
        &["export", other, &path("none.tar"), "--for", "podman"],
        2,
    );
    assert!(!dir.join("none.tar").exists());
}

/// A checkpoint with buffer objects on one GPU: their addresses and contents, in this order.
fn with_objects(dir: &Path, objects: &[(u64, Vec<u8>)]) {
    let images = dir.join("checkpoint");
    fs::create_dir_all(&images).expect("directory");
    let whole = system("mi300x-spx");
    let dump = Dump {
        dir: &images,
        system: &whole,
        xnack: false,
    };
    let mut image = dump.process(7, 3, of_nodes(&[4]));
    let gpu = image.system.gpus().next().expect("a GPU").id;
    image.bos = objects
        .iter()
        .map(|(addr, content)| BoEntry {
            addr: *addr,
            size: content.len() as u64,
            offset: 0,
            flags: BoFlags::VRAM,
            gpu,
            handle: None,
        })
        .collect();
    // The kernel's record of each object; nobody here looks into it.
    image.priv_data.extend(vec![0; 272 * objects.len()]);
    let folder = FdDir(fs::File::open(&images).expect("directory"));
    write_image(&folder, &names::kfd(FileId(3)), &image).expect("image");
    let content: Vec<u8> = objects
        .iter()
        .flat_map(|(_, content)| content.clone())
        .collect();
    let mut pages = (content.len() as u64).to_le_bytes().to_vec();
    pages.extend(content);
    fs::write(images.join(names::pages(FileId(3), gpu)), pages).expect("pages");
}

/// Objects are found again wherever they lie in their file, and told by their addresses.
#[test]
fn buffer_objects_are_cut_out_and_told_by_address() {
    let temp = place();
    let dir = temp.path();
    let from = dir.join("from");
    let object = |address: u64, seed: u8, pages: usize| {
        let mut state = u32::from(seed) + 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        };
        (
            address,
            (0..pages * 4096).map(|_| next()).collect::<Vec<u8>>(),
        )
    };
    let (one, two) = (
        object(0x7f00_0000_0000, 1, 1500),
        object(0x7f10_0000_0000, 2, 300),
    );
    with_objects(&from, &[one.clone(), two.clone()]);
    let text = from.display().to_string();
    let first = prints(dir, None, &["push", &text], 0);
    let first = first.lines().next().expect("a name").to_owned();
    // A new one lies before both, and a page of the second one has changed.
    let mut changed = two.clone();
    changed.1[5] ^= 1;
    with_objects(&from, &[object(0x7f20_0000_0000, 3, 1), one, changed]);
    let second = json(dir, None, &["push", &text, "-o", "json"]);
    let sent = second["sent_bytes"].as_u64().expect("number");
    assert!((1_228_800..1_300_000).contains(&sent), "{sent}");
    let second = second["id"].as_str().expect("a name").to_owned();
    let said = prints(dir, None, &["diff", &first, &second], 0);
    let line = |address: &str| {
        let line = said.lines().find(|line| line.contains(address));
        line.unwrap_or_else(|| panic!("{address}: {said}"))
            .to_owned()
    };
    assert!(line("BO at 0x7f2000000000").contains("added"), "{said}");
    assert!(line("BO at 0x7f1000000000").contains("changed"), "{said}");
    // It lies somewhere else in its file.
    assert!(
        line("BO at 0x7f0000000000").contains("same content"),
        "{said}"
    );
    let inspected = prints(dir, None, &["inspect", &second], 0);
    assert_eq!(inspected.matches("BO at 0x").count(), 3, "{inspected}");
}
