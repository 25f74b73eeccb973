//! The mounts of the images against those that are granted.

use std::collections::HashSet;
use std::path::{Component, Path};

use rocferry_image::criu::{FileSystem, Mount};

use super::capabilities::{SYS_ADMIN, has};
use super::granted::Granted;
use crate::spec::plain;

/// What can be mounted in a container with `CAP_SYS_ADMIN` and shows nothing of the host that it could not see otherwise. No
/// overlay: the folders that it shows are named by the image, and CRIU still sees the host's.
const HARMLESS: [&str; 7] = [
    "proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2",
];

/// What runtimes hide files behind.
const NOTHING: &str = "/dev/null";

/// Name of the folder behind which newer versions of crun (1.28) hide folders: an empty one of its own, where others mount
/// an empty tmpfs.
const EMPTY_FOLDER: &str = ".empty-directory";

/// What is mounted beyond that, each in words.
pub(super) fn excess(granted: &Granted, mounts: &[Mount]) -> Vec<String> {
    // File systems of which a mount is granted may be seen in other places too: parts of /proc that are read-only, masks.
    let own: HashSet<u32> = mounts
        .iter()
        .filter(|mount| is_root(mount) || is_granted(granted, mount))
        .map(|mount| mount.device)
        .collect();
    let beyond = mounts
        .iter()
        .filter(|mount| !is_plain(mount) || !fits(granted, mount, &own));
    beyond.map(words).collect()
}

fn fits(granted: &Granted, mount: &Mount, own: &HashSet<u32>) -> bool {
    if is_root(mount) {
        return true;
    }
    if mount.is_external {
        let key = mount.external.as_deref().unwrap_or(&mount.place);
        return key == NOTHING || is_place(granted, key) || is_mask_of_crun(granted, mount, key);
    }
    let FileSystem::Named(name) = &mount.kind else {
        return own.contains(&mount.device);
    };
    let place = plain(&mount.place);
    own.contains(&mount.device)
        || (name == "tmpfs" && granted.masked.contains(&place))
        || (has(granted.reachable, SYS_ADMIN) && HARMLESS.contains(&name.as_str()))
}

/// Does the specification mount this kind of file system there?
fn is_granted(granted: &Granted, mount: &Mount) -> bool {
    let FileSystem::Named(name) = &mount.kind else {
        return false;
    };
    let version = |name: &str| match name {
        // Which version it is depends on the machine.
        "cgroup2" => "cgroup".to_owned(),
        other => other.to_owned(),
    };
    let known = granted.mounts.get(&plain(&mount.place));
    !mount.is_external && known.is_some_and(|known| version(known) == version(name))
}

fn is_place(granted: &Granted, path: &str) -> bool {
    let path = plain(path);
    granted.mounts.contains_key(&path) || granted.masked.contains(&path)
}

/// The folder is the runtime's, whatever the images say of it: CRIU takes it from where the runtime tells it.
fn is_mask_of_crun(granted: &Granted, mount: &Mount, key: &str) -> bool {
    let is_empty_folder = Path::new(key)
        .file_name()
        .is_some_and(|name| name == EMPTY_FOLDER);
    is_empty_folder && granted.masked.contains(&plain(&mount.place))
}

/// The root file system is given by the runtime, whatever the images say of it.
fn is_root(mount: &Mount) -> bool {
    plain(&mount.place).is_empty()
}

/// Do its paths stay where they are?
fn is_plain(mount: &Mount) -> bool {
    let inside = |path: &str| {
        let mut parts = Path::new(path).components();
        parts.all(|part| part != Component::ParentDir)
    };
    inside(&mount.place) && inside(&mount.root)
}

fn words(mount: &Mount) -> String {
    let place = format!("a mount at {:?}", mount.place);
    match (&mount.external, &mount.kind) {
        (Some(key), _) => format!("{place} from outside ({key:?})"),
        (None, _) if mount.is_external => format!("{place} from outside"),
        (None, FileSystem::Named(name)) => format!("{place} of {name:?} ({:?})", mount.root),
        (None, FileSystem::Other(number)) => {
            format!("{place} of file system {number} ({:?})", mount.root)
        }
    }
}

#[cfg(test)]
mod tests {
    use rocferry_image::criu::Capabilities;

    use super::*;
    use crate::spec::Spec;

    fn granted(capabilities: &str) -> Granted {
        let text = format!(
            r#"{{"process":{{"capabilities":{{"bounding":[{capabilities}]}}}},
            "mounts":[{{"destination":"/proc","type":"proc","source":"proc"}},
                {{"destination":"/dev","type":"tmpfs","source":"tmpfs"}},
                {{"destination":"/sys/fs/cgroup","type":"cgroup","source":"cgroup"}},
                {{"destination":"/data","type":"none","source":"/x","options":["rbind"]}}],
            "linux":{{"maskedPaths":["/proc/kcore","/sys/firmware"]}}}}"#
        );
        let spec = Spec::parse(Path::new("/b"), text.into_bytes()).expect("JSON");
        Granted::by(&spec)
    }

    fn mount(kind: &str, device: u32, root: &str, place: &str) -> Mount {
        Mount {
            kind: FileSystem::Named(kind.to_owned()),
            device,
            root: root.to_owned(),
            place: place.to_owned(),
            external: None,
            is_external: false,
        }
    }

    fn outside(key: Option<&str>, place: &str) -> Mount {
        Mount {
            external: key.map(str::to_owned),
            is_external: true,
            kind: FileSystem::Other(0),
            ..mount("", 99, "/", place)
        }
    }

    fn usual() -> Vec<Mount> {
        vec![
            mount("overlay", 1, "/", "/"),
            mount("proc", 2, "/", "/proc"),
            mount("tmpfs", 3, "/", "./dev"),
            mount("cgroup2", 4, "/", "/sys/fs/cgroup"),
            // Parts that are read-only, masks, a mask of a folder.
            mount("proc", 2, "/sys", "/proc/sys"),
            mount("tmpfs", 3, "/null", "/proc/kcore"),
            mount("tmpfs", 5, "/", "/sys/firmware"),
            outside(Some("/data"), "/data"),
            outside(Some("/dev/null"), "/proc/keys"),
            outside(None, "/data"),
            outside(Some("/run/crun/.empty-directory"), "/sys/firmware"),
        ]
    }

    #[test]
    fn what_runtimes_mount_is_no_more() {
        let found = excess(&granted(""), &usual());
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn each_other_mount_is_named() {
        let other = Mount {
            kind: FileSystem::Other(0),
            ..mount("", 8, "/", "/host")
        };
        let plugin = outside(None, "/host");
        let cases = [
            (mount("overlay", 9, "/", "/host"), "/host"),
            (mount("ext4", 9, "/etc", "/host"), "/host"),
            (mount("tmpfs", 9, "/", "/tmp"), "/tmp"),
            // Another kind in a place that is granted.
            (mount("sysfs", 9, "/", "/proc"), "/proc"),
            (mount("devtmpfs", 9, "/", "/dev"), "/dev"),
            (mount("proc", 2, "/../../..", "/proc/x"), "/proc/x"),
            (mount("proc", 2, "/", "/a/../../host"), "/host"),
            (outside(Some("/etc"), "/data"), "/etc"),
            (outside(Some("/etc"), "/sys/firmware"), "/etc"),
            (
                outside(Some("/run/crun/.empty-directory"), "/host"),
                "/host",
            ),
            (
                outside(Some("/run/.empty-directory/.."), "/sys/firmware"),
                "..",
            ),
            (plugin, "/host"),
            (other, "/host"),
        ];
        for (bad, named) in cases {
            let mut mounts = usual();
            mounts.push(bad);
            let found = excess(&granted(""), &mounts);
            assert!(found.len() == 1 && found[0].contains(named), "{found:?}");
        }
    }

    #[test]
    fn whoever_may_mount_may_have_mounted() {
        let with = granted("\"CAP_SYS_ADMIN\"");
        assert_eq!(with.reachable, SYS_ADMIN);
        assert!(excess(&with, &[mount("tmpfs", 9, "/", "/tmp")]).is_empty());
        for kind in ["overlay", "ext4", "devtmpfs", "debugfs", "fuse"] {
            let found = excess(&with, &[mount(kind, 9, "/", "/host")]);
            assert_eq!(found.len(), 1, "{kind}");
        }
        let mut bound = with;
        bound.reachable = Capabilities(0);
        assert_eq!(excess(&bound, &[mount("tmpfs", 9, "/", "/tmp")]).len(), 1);
    }
}
