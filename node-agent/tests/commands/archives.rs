//! Restoring archives of engines, as far as it goes without CRIU: whose archives are taken, and what hostile ones do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::run::{Ended, agent};

/// A place with settings, an archive and a bundle.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new(settings: Option<&str>) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        if let Some(settings) = settings {
            let path = dir.path().join("agent.json");
            fs::write(&path, settings).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        }
        let bundle = dir.path().join("bundle");
        fs::create_dir_all(bundle.join("rootfs")).expect("made");
        fs::write(
            bundle.join("config.json"),
            "{\"root\":{\"path\":\"rootfs\"}}",
        )
        .expect("written");
        // What is in the runtime's place knows no container.
        let runtime = dir.path().join("runc");
        fs::write(&runtime, "#!/bin/sh\nexit 1\n").expect("written");
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("ours");
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn restore(&self, more: &[&str]) -> Ended {
        let mut agent = agent();
        agent
            .args(["restore", "--runtime", "runc", "--json"])
            .args(["--criu", "/nowhere/criu", "--name", "job"])
            .arg("--runtime-program")
            .arg(self.path("runc"))
            .arg("--bundle")
            .arg(self.path("bundle"))
            .arg("--settings")
            .arg(self.path("agent.json"))
            .arg("--state")
            .arg(self.path("state"))
            .arg("--from")
            .arg(self.path("a.tar"))
            .args(more);
        agent.output().expect("run").into()
    }

    /// Nothing is left in the spool or the journal, and nothing came into the bundle.
    fn is_clean(&self) {
        for folder in ["state/spool", "state/journal", "bundle/rootfs"] {
            let Ok(entries) = fs::read_dir(self.path(folder)) else {
                continue;
            };
            let left: Vec<_> = entries
                .map(|entry| entry.expect("entry").path())
                .filter(|path| path.extension().is_none_or(|end| end != "lock"))
                .filter(|path| path.file_name().is_none_or(|name| name != "lock"))
                .collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

/// A member: its name, its kind, what it links to, its content.
struct Member<'a> {
    name: &'a str,
    kind: tar::EntryType,
    link: &'a str,
    content: &'a [u8],
}

const fn file<'a>(name: &'a str, content: &'a [u8]) -> Member<'a> {
    Member {
        name,
        kind: tar::EntryType::Regular,
        link: "",
        content,
    }
}

const GOOD: [Member<'static>; 3] = [
    file("config.dump", b"{\"id\":\"f00\",\"runtime\":\"runc\"}"),
    file("spec.dump", b"{}"),
    file("checkpoint/inventory.img", b"inventory"),
];

fn archive(path: &Path, members: &[Member<'_>]) {
    let mut tar = tar::Builder::new(Vec::new());
    for member in members {
        let mut header = tar::Header::new_gnu();
        // As it is: the library would not write a name that leads out.
        let name = &mut header.as_gnu_mut().expect("GNU").name;
        name[..member.name.len()].copy_from_slice(member.name.as_bytes());
        header.set_entry_type(member.kind);
        if !member.link.is_empty() {
            header.set_link_name(member.link).expect("a link");
        }
        header.set_mode(0o644);
        header.set_size(member.content.len() as u64);
        header.set_cksum();
        tar.append(&header, member.content).expect("memory");
    }
    fs::write(path, tar.into_inner().expect("memory")).expect("written");
}

#[test]
fn an_archive_is_restored_only_if_administrator_and_user_say_so() {
    let allowed = r#"{"unsignedArchives":true}"#;
    for (settings, words, step) in [
        (
            None,
            &["--unsigned"][..],
            "write {\"unsignedArchives\": true}",
        ),
        (
            Some("{}"),
            &["--unsigned"],
            "write {\"unsignedArchives\": true}",
        ),
        (Some(allowed), &[], "Say --unsigned"),
    ] {
        let place = Place::new(settings);
        archive(&place.path("a.tar"), &GOOD);
        let ended = place.restore(words);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains("is not signed"), "{ended:?}");
        assert!(ended.stderr.contains(step), "{ended:?}");
        place.is_clean();
    }
    // Others could have written the settings.
    let place = Place::new(Some(allowed));
    archive(&place.path("a.tar"), &GOOD);
    let settings = place.path("agent.json");
    fs::set_permissions(settings, fs::Permissions::from_mode(0o666)).expect("ours");
    let ended = place.restore(&["--unsigned"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("others can write it"), "{ended:?}");
}

#[test]
fn a_good_archive_gets_as_far_as_criu() {
    let place = Place::new(Some(r#"{"unsignedArchives":true}"#));
    archive(&place.path("a.tar"), &GOOD);
    let ended = place.restore(&["--unsigned", "--check"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let ended = place.restore(&["--unsigned"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert_eq!(ended.json()["findings"][0]["about"], "criu", "{ended:?}");
    place.is_clean();
    let bare = json!({"id": "f00", "runtime": "bare"}).to_string();
    let members = [
        file("config.dump", bare.as_bytes()),
        file("spec.dump", b"{}"),
        file("checkpoint/inventory.img", b"i"),
    ];
    archive(&place.path("a.tar"), &members);
    let ended = place.restore(&["--unsigned", "--check"]);
    assert_eq!(ended.status, 1, "{ended:?}");
}

/// Field report 47: whatever an archive says, nothing of the host is read or written.
#[test]
fn a_hostile_archive_is_refused_by_the_name_of_its_member() {
    use tar::EntryType;
    let cdi = json!({"annotations": {"cdi.k8s.io/gpu": "amd.com/gpu=all"}}).to_string();
    let link = |name, kind, link| Member {
        name,
        kind,
        link,
        content: b"",
    };
    for (member, named) in [
        (
            link("container.log", EntryType::Symlink, "/etc/passwd"),
            "container.log",
        ),
        (
            link("checkpoint/x", EntryType::Link, "/etc/passwd"),
            "checkpoint/x",
        ),
        (
            link("checkpoint/kfd", EntryType::Char, ""),
            "checkpoint/kfd",
        ),
        (
            link("checkpoint/disk", EntryType::Block, ""),
            "checkpoint/disk",
        ),
        (
            link("checkpoint/pipe", EntryType::Fifo, ""),
            "checkpoint/pipe",
        ),
        (file("../outside", b"x"), "../outside"),
        (
            file("checkpoint/../../outside", b"x"),
            "checkpoint/../../outside",
        ),
        (file("/outside", b"x"), "/outside"),
        (file("spec.dump", cdi.as_bytes()), "cdi.k8s.io/gpu"),
        (file("checkpoint", b"x"), "checkpoint"),
        (file("./config.dump", b"{}"), "config.dump"),
    ] {
        let place = Place::new(Some(r#"{"unsignedArchives":true}"#));
        let [config, spec, inventory] = GOOD;
        let mut members = vec![config, inventory];
        if member.name != spec.name {
            members.push(spec);
        }
        members.push(member);
        archive(&place.path("a.tar"), &members);
        for words in [&["--unsigned"][..], &["--unsigned", "--check"]] {
            let ended = place.restore(words);
            assert_eq!(ended.status, 2, "{named}: {ended:?}");
            assert!(ended.stderr.contains(named), "{named}: {ended:?}");
            place.is_clean();
        }
        assert!(!place.path("outside").exists() && !place.path("state/outside").exists());
    }
}

#[test]
fn what_is_no_whole_archive_is_refused() {
    let place = Place::new(Some(r#"{"unsignedArchives":true}"#));
    let path = place.path("a.tar");
    archive(&path, &GOOD);
    let good = fs::read(&path).expect("there");
    for bytes in [
        Vec::new(),
        b"no archive".to_vec(),
        good[..good.len() / 2].to_vec(),
    ] {
        fs::write(&path, bytes).expect("written");
        let ended = place.restore(&["--unsigned"]);
        assert_eq!(ended.status, 2, "{ended:?}");
        place.is_clean();
    }
    fs::remove_file(&path).expect("removed");
    let ended = place.restore(&["--unsigned"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("made");
    let ended = place.restore(&["--unsigned"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(
        ended.stderr.contains("neither a file nor a folder"),
        "{ended:?}"
    );
}
