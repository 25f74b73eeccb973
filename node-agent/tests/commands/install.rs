//! `rocferry-agent install` and `uninstall` on a host that is mounted somewhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::run::{Ended, run};

/// Path, permissions and content of everything below a folder.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).expect("list") {
            let path = entry.expect("entry").path();
            let mode = fs::metadata(&path).expect("meta").permissions().mode();
            let content = match path.is_dir() {
                true => {
                    waiting.push(path.clone());
                    Vec::new()
                }
                false => fs::read(&path).expect("file"),
            };
            let path = path.strip_prefix(root).expect("below").to_owned();
            found.insert(path, (mode, content));
        }
    }
    found
}

fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("parent")).expect("folder");
    fs::write(path, content).expect("file");
}

/// A host with Podman and CRI-O, and the C plugin beside another one; what is to be installed.
fn host() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("folder");
    let (root, from) = (place.path().join("root"), place.path().join("from"));
    for program in ["podman", "crio", "runc"] {
        put(&root, &format!("usr/bin/{program}"), "program");
    }
    put(&root, "usr/lib/criu/amdgpu_plugin.so", "the C plugin");
    put(&root, "usr/lib/criu/cuda_plugin.so", "another plugin");
    put(&root, "etc/containers/containers.conf", "[engine]\n");
    put(&root, "etc/criu/runc.conf", "tcp-close");
    put(&root, "usr/lib/systemd/systemd", "systemd");
    fs::create_dir_all(root.join("var/lib")).expect("folder");
    for name in [
        "amdgpu_plugin.so",
        "rocferry-agent",
        "rocferry-runc",
        "rocferry-hook",
    ] {
        put(&from, name, name);
    }
    place
}

fn verb(place: &Path, words: &[&str]) -> Ended {
    let root = place.join("root").display().to_string();
    let from = place.join("from").display().to_string();
    let words: Vec<&str> = match words {
        ["install", more @ ..] => {
            let own = ["install", "--root", &root, "--from", &from];
            own.into_iter().chain(more.iter().copied()).collect()
        }
        words => words.iter().copied().chain(["--root", &root]).collect(),
    };
    run(words)
}

#[test]
fn a_host_is_as_it_was_afterwards() {
    let place = host();
    let root = place.path().join("root");
    let before = tree(&root);
    // As cargo leaves it.
    let from = place.path().join("from");
    let (plugin, built) = ("amdgpu_plugin.so", "libamdgpu_plugin.so");
    fs::rename(from.join(plugin), from.join(built)).expect("renamed");
    for _ in 0..2 {
        let ended = verb(place.path(), &["install"]);
        assert_eq!(ended.status, 0, "{ended:?}");
    }
    let now = tree(&root);
    let text = |path: &str| {
        let (_, content) = now
            .get(Path::new(path))
            .unwrap_or_else(|| panic!("no {path}"));
        String::from_utf8(content.clone()).expect("text")
    };
    assert_eq!(text("usr/lib/criu/amdgpu_plugin.so"), "amdgpu_plugin.so");
    assert_eq!(text("usr/lib/criu/cuda_plugin.so"), "another plugin");
    assert_eq!(text("usr/libexec/rocferry/rocferry-crun"), "rocferry-runc");
    let (mode, _) = &now[Path::new("usr/libexec/rocferry/rocferry-hook")];
    assert_eq!(mode & 0o7777, 0o755);
    let podman = text("etc/containers/containers.conf.d/50-rocferry.conf");
    assert!(
        podman.contains("rocferry = [\"/usr/libexec/rocferry/rocferry-runc\"]"),
        "{podman}"
    );
    let crio = text("etc/crio/crio.conf.d/50-rocferry.conf");
    assert!(crio.contains("[crio.runtime.runtimes.rocferry]"), "{crio}");
    let hook = text("usr/share/containers/oci/hooks.d/rocferry-record.json");
    assert!(
        hook.contains("\"/usr/libexec/rocferry/rocferry-hook\""),
        "{hook}"
    );
    let criu = text("etc/criu/runc.conf");
    assert!(criu.starts_with("tcp-close\n"), "{criu}");
    let line = "action-script /usr/libexec/rocferry/rocferry-action\n";
    assert_eq!(criu.matches(line).count(), 1, "{criu}");
    assert!(!now.contains_key(Path::new("etc/criu/crun.conf")));
    assert_eq!(
        text("usr/libexec/rocferry/rocferry-action"),
        "rocferry-hook"
    );
    let unit = text("etc/systemd/system/rocferry-agent.service");
    assert!(
        unit.contains("ExecStart=/usr/libexec/rocferry/rocferry-agent serve\n"),
        "{unit}"
    );
    // Only plugins lie where CRIU loads everything.
    let plugins = now.keys().filter(|path| path.starts_with("usr/lib/criu"));
    assert_eq!(plugins.count(), 3);

    let ended = verb(place.path(), &["uninstall"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let mut after = tree(&root);
    // The agent's folder may hold more than the record of this.
    after.retain(|path, _| !path.starts_with("var/lib/rocferry"));
    assert_eq!(after, before);
    let ended = verb(place.path(), &["uninstall"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, ""), "{ended:?}");
}

#[test]
fn what_was_changed_since_stays_and_is_said() {
    let place = host();
    let root = place.path().join("root");
    assert_eq!(verb(place.path(), &["install"]).status, 0);
    put(&root, "usr/lib/criu/amdgpu_plugin.so", "a package's update");
    let ended = verb(place.path(), &["uninstall"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("/usr/lib/criu/amdgpu_plugin.so was changed since"),
        "{ended:?}"
    );
    let plugin = fs::read_to_string(root.join("usr/lib/criu/amdgpu_plugin.so")).expect("plugin");
    assert_eq!(plugin, "a package's update");
    assert!(!root.join("usr/libexec/rocferry").exists());
}

#[test]
fn what_is_not_complete_is_not_installed() {
    let place = host();
    let before = tree(&place.path().join("root"));
    fs::remove_file(place.path().join("from/rocferry-hook")).expect("gone");
    let ended = verb(place.path(), &["install"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(
        ended.stderr.contains("rocferry-hook is not there"),
        "{ended:?}"
    );
    let mut after = tree(&place.path().join("root"));
    after.retain(|path, _| !path.starts_with("var/lib/rocferry"));
    assert_eq!(after, before);
}

/// The plugin is tried first. Without CRIU it cannot be.
#[test]
fn a_host_whose_criu_fails_is_left_alone() {
    let place = host();
    let state = place.path().join("state");
    let prefix = place.path().join("programs").display().to_string();
    let plugins = place.path().join("plugins").display().to_string();
    let mut command = crate::run::agent();
    command.env("PATH", place.path());
    command.args(["install", "--prefix", &prefix, "--plugins", &plugins]);
    command.arg("--state").arg(&state);
    command.arg("--from").arg(place.path().join("from"));
    let ended = Ended::from(command.output().expect("run"));
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("nothing was changed"), "{ended:?}");
    assert!(!Path::new(&prefix).exists() && !Path::new(&plugins).exists());
}
