//! Files of projected volumes (tokens, ConfigMaps, Secrets) that a process holds open, maps or watches.
//!
//! The kubelet writes each version into a folder of its own, named by the time. The pod that is restored has others.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rocferry_image::manifest::Mount;

use super::Finding;
use crate::process::{numbers, proc, read};

/// Folders of such volumes in a pod's `volumes`.
const KINDS: [&str; 4] = [
    "kubernetes.io~projected",
    "kubernetes.io~configmap",
    "kubernetes.io~secret",
    "kubernetes.io~downward-api",
];

/// Beginning of the names of the folders of versions.
const VERSION: &str = "..2";

/// Bits of `i_ino` and `s_dev` in a line of an inotify file's `fdinfo`.
type Inode = (u64, u64);

/// What is held of the projected volumes among these mounts.
pub(super) fn check(who: &str, processes: &[u32], mounts: &[Mount]) -> Option<Finding> {
    let volumes: Vec<&Mount> = mounts
        .iter()
        .filter(|mount| is_projected(Path::new(&mount.source)))
        .collect();
    let inodes: Vec<(Inode, &str)> = volumes
        .iter()
        .flat_map(|mount| {
            let inodes = versions(Path::new(&mount.source)).into_iter();
            inodes.map(|inode| (inode, mount.destination.as_str()))
        })
        .collect();
    let mut held = BTreeSet::new();
    for pid in processes {
        for path in opened(*pid).into_iter().chain(mapped(*pid)) {
            let inside = volumes
                .iter()
                .any(|mount| is_of_version(&path, Path::new(&mount.destination)));
            if inside {
                held.insert(path.display().to_string());
            }
        }
        for watched in watched(*pid) {
            let known = inodes.iter().find(|(inode, _)| *inode == watched);
            held.extend(known.map(|(_, destination)| format!("a watch below {destination}")));
        }
    }
    if held.is_empty() {
        return None;
    }
    let named: Vec<String> = held.into_iter().take(5).collect();
    Some(Finding::refusal(
        "projected-volume",
        format!(
            "{who} holds files of a projected volume, in a folder that the restored pod does not have: {}",
            named.join(", ")
        ),
    ))
}

fn is_projected(source: &Path) -> bool {
    source
        .components()
        .any(|part| KINDS.iter().any(|kind| part.as_os_str() == *kind))
}

/// Is it in the folder of a version of the volume that is mounted there?
fn is_of_version(path: &Path, volume: &Path) -> bool {
    let first = path
        .strip_prefix(volume)
        .ok()
        .and_then(|below| below.components().next());
    matches!(first, Some(Component::Normal(name)) if name.as_encoded_bytes().starts_with(VERSION.as_bytes()))
}

/// Inodes of the versions' folders and what is in them.
fn versions(source: &Path) -> Vec<Inode> {
    let entries = fs::read_dir(source).into_iter().flatten();
    let entries = entries.filter_map(Result::ok);
    let folders = entries.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(VERSION.as_bytes())
    });
    let mut waiting: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        let Ok(meta) = path.symlink_metadata() else {
            continue;
        };
        found.push((meta.ino(), kernel_device(meta.dev())));
        if meta.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten();
            waiting.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
        }
    }
    found
}

/// A device's number as the kernel keeps it (`MKDEV`: 20 bits of minor).
fn kernel_device(device: u64) -> u64 {
    u64::from(rustix::fs::major(device)) << 20 | u64::from(rustix::fs::minor(device))
}

fn opened(pid: u32) -> Vec<PathBuf> {
    let fds = proc(pid).join("fd");
    let fds = numbers(&fds).into_iter().map(|fd| fds.join(fd.to_string()));
    fds.filter_map(|fd| fs::read_link(fd).ok()).collect()
}

fn mapped(pid: u32) -> BTreeSet<PathBuf> {
    let maps = read(&proc(pid).join("maps")).unwrap_or_default();
    let name = |line: &str| Some(line.splitn(6, ' ').nth(5)?.trim_start().to_owned());
    let names = maps.lines().filter_map(name);
    names
        .filter(|name| name.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

fn watched(pid: u32) -> BTreeSet<Inode> {
    let infos = proc(pid).join("fdinfo");
    let texts = numbers(&infos)
        .into_iter()
        .filter_map(|fd| read(&infos.join(fd.to_string())).ok());
    texts.flat_map(|text| watches(&text)).collect()
}

/// `inotify wd:1 ino:9e7e sdev:800013 mask:…`, numbers in hexadecimal.
fn watches(text: &str) -> Vec<Inode> {
    let line = |line: &str| {
        let words = line.strip_prefix("inotify ")?.split_ascii_whitespace();
        let value = |name: &str| {
            let mut words = words.clone();
            u64::from_str_radix(words.find_map(|word| word.strip_prefix(name))?, 16).ok()
        };
        Some((value("ino:")?, value("sdev:")?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn what_is_held_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let source = dir.path().join("kubernetes.io~projected/token");
        let version = source.join("..2026_12_01_10_00_00.123");
        fs::create_dir_all(&version).expect("made");
        fs::write(version.join("token"), "x").expect("written");
        let text = source.to_str().expect("a path").to_owned();
        let mounts = [Mount {
            // In this test both sides see the same paths.
            destination: text.clone(),
            source: text,
            kind: "bind".to_owned(),
        }];
        let own = [std::process::id()];
        assert_eq!(check("main", &own, &mounts), None);
        let open = File::open(version.join("token")).expect("it is there");
        let finding = check("main", &own, &mounts).expect("it is held");
        assert!(
            finding.refuses && finding.text.contains("..2026"),
            "{finding:?}"
        );
        drop(open);
        assert_eq!(check("main", &own, &mounts), None);
        let watcher =
            rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::empty()).expect("inotify");
        let flags = rustix::fs::inotify::WatchFlags::MODIFY;
        // The volume's own folder is there in the other pod too.
        rustix::fs::inotify::add_watch(&watcher, &source, flags).expect("watched");
        assert_eq!(check("main", &own, &mounts), None);
        rustix::fs::inotify::add_watch(&watcher, version.join("token"), flags).expect("watched");
        let finding = check("main", &own, &mounts).expect("it is watched");
        assert!(finding.text.contains("a watch below"), "{finding:?}");
    }

    #[test]
    fn other_volumes_may_be_held() {
        for (source, wanted) in [
            (
                "/var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/c",
                true,
            ),
            (
                "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/c",
                false,
            ),
            ("proc", false),
        ] {
            assert_eq!(is_projected(Path::new(source)), wanted, "{source}");
        }
    }
}
