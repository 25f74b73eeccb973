//! The emptyDir volumes of a pod, as its containers' mounts name them, and where their content lies on the node.
//!
//! The kubelet mounts `PODS/UID/volumes/kubernetes.io~empty-dir/NAME`, or, for a sub-path,
//! `PODS/UID/volume-subpaths/NAME/CONTAINER/NUMBER`, to which it has bound a folder of the volume.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use rocferry_image::manifest::Mount;

use super::{PodVolume, VolumeKind, VolumeMount};
use crate::process;
use crate::runtime::unescape;
use crate::ticket::ContainerName;

/// Folder of emptyDir volumes in a pod's `volumes`.
const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
/// `f_type` of a tmpfs and of huge pages (`include/uapi/linux/magic.h`).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x9584_58f6];

/// An emptyDir volume, and its folder on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundVolume {
    pub(crate) volume: PodVolume,
    pub(crate) folder: PathBuf,
}

/// The volumes behind these mounts, each once. A mount whose volume cannot be told is named in the error.
pub(crate) fn volumes<'a>(
    mounts: impl Iterator<Item = (&'a ContainerName, Vec<Mount>)>,
) -> Result<Vec<FoundVolume>, String> {
    let table =
        process::read(Path::new("/proc/self/mountinfo")).map_err(|error| error.to_string())?;
    let table = Table::parse(&table);
    let mut found: BTreeMap<PathBuf, FoundVolume> = BTreeMap::new();
    for (container, mounts) in mounts {
        for mount in mounts {
            let source = Path::new(&mount.source);
            let Some((folder, sub_path)) = table.place(source)? else {
                continue;
            };
            let name = folder
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let name: ContainerName = name
                .parse()
                .map_err(|_| format!("{} has no name that a volume can have", folder.display()))?;
            let entry = found.entry(folder.clone()).or_insert_with(|| FoundVolume {
                volume: PodVolume {
                    name,
                    kind: kind(&folder),
                    mounts: Vec::new(),
                },
                folder,
            });
            entry.volume.mounts.push(VolumeMount {
                container: container.clone(),
                destination: PathBuf::from(&mount.destination),
                sub_path,
            });
        }
    }
    Ok(found.into_values().collect())
}

fn kind(folder: &Path) -> VolumeKind {
    let kind = rustix::fs::statfs(folder).map(|stat| u64::try_from(stat.f_type).unwrap_or(0));
    match kind {
        Ok(kind) if IN_MEMORY.contains(&kind) => VolumeKind::Memory,
        _ => VolumeKind::Disk,
    }
}

/// Mounts of this machine.
struct Table(Vec<Row>);

struct Row {
    device: String,
    /// What of its file system is mounted.
    root: PathBuf,
    at: PathBuf,
}

impl Table {
    fn parse(text: &str) -> Self {
        let row = |line: &str| {
            let mut fields = line.split(' ').skip(2);
            Some(Row {
                device: fields.next()?.to_owned(),
                root: unescape(fields.next()?).into(),
                at: unescape(fields.next()?).into(),
            })
        };
        Self(text.lines().filter_map(row).collect())
    }

    /// Device and path in its file system, of a path on this machine.
    fn resolve(&self, path: &Path) -> Option<(&str, PathBuf)> {
        let above = self.0.iter().filter(|row| path.starts_with(&row.at));
        // Of those at one place the last one is seen.
        let row = above.max_by_key(|row| row.at.components().count())?;
        let below = path.strip_prefix(&row.at).ok()?;
        Some((&row.device, row.root.join(below)))
    }

    /// Folder of the volume, and the path in it, of what a container has mounted. `None`: it is no emptyDir.
    fn place(&self, source: &Path) -> Result<Option<(PathBuf, PathBuf)>, String> {
        if let Some((folder, below)) = split(source, &["volumes", EMPTY_DIR], 1) {
            return Ok(Some((folder, below)));
        }
        let Some((folder, _)) = split(source, &["volume-subpaths"], 1) else {
            return Ok(None);
        };
        // PODS/UID/volume-subpaths/NAME
        let (Some(name), Some(pod)) = (folder.file_name(), folder.ancestors().nth(2)) else {
            return Ok(None);
        };
        let volume = pod.join("volumes").join(EMPTY_DIR).join(name);
        if !volume.is_dir() {
            return Ok(None);
        }
        let below = self.resolve(source).zip(self.resolve(&volume));
        let below = below.and_then(|((device, inner), (other, top))| {
            let below = inner.strip_prefix(&top).ok()?;
            (device == other).then(|| below.to_owned())
        });
        let unknown = || {
            format!(
                "Which part of volume {} {} is cannot be told",
                volume.display(),
                source.display()
            )
        };
        Ok(Some((volume.clone(), below.ok_or_else(unknown)?)))
    }
}

/// Splits a path behind these folders and as many names more: the front with all of them, the rest.
fn split(path: &Path, folders: &[&str], names: usize) -> Option<(PathBuf, PathBuf)> {
    let parts: Vec<Component<'_>> = path.components().collect();
    let at = parts.windows(folders.len()).position(|window| {
        let mut pairs = window.iter().zip(folders);
        pairs.all(|(part, folder)| part.as_os_str() == *folder)
    })?;
    let end = at.checked_add(folders.len())?.checked_add(names)?;
    let front: PathBuf = parts.get(..end)?.iter().collect();
    let rest: PathBuf = parts.get(end..)?.iter().collect();
    Some((front, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(source: &str, destination: &str) -> Mount {
        Mount {
            destination: destination.to_owned(),
            source: source.to_owned(),
            kind: "bind".to_owned(),
        }
    }

    #[test]
    fn volumes_are_known_by_their_paths() {
        let volume = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/scratch";
        let main: ContainerName = "main".parse().expect("a name");
        let side: ContainerName = "side".parse().expect("a name");
        let mounts = [
            (
                &main,
                vec![
                    mount(volume, "/scratch"),
                    mount(
                        "/var/lib/kubelet/pods/u/volumes/kubernetes.io~projected/token",
                        "/t",
                    ),
                    mount("/var/lib/kubelet/pods/u/etc-hosts", "/etc/hosts"),
                    mount("proc", "/proc"),
                ],
            ),
            (&side, vec![mount(&format!("{volume}/a/b"), "/in")]),
        ];
        let found = volumes(mounts.into_iter()).expect("clear");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].folder, Path::new(volume));
        let seen: Vec<_> = found[0]
            .volume
            .mounts
            .iter()
            .map(|mount| {
                (
                    mount.container.as_str(),
                    &*mount.destination,
                    &*mount.sub_path,
                )
            })
            .collect();
        let wanted = [
            ("main", Path::new("/scratch"), Path::new("")),
            ("side", Path::new("/in"), Path::new("a/b")),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn a_sub_path_is_found_through_the_mounts() {
        let dir = tempfile::tempdir().expect("a folder");
        let pod = dir.path().join("pods/u");
        let volume = pod.join("volumes").join(EMPTY_DIR).join("scratch");
        std::fs::create_dir_all(&volume).expect("made");
        let source = pod.join("volume-subpaths/scratch/main/0");
        let (base, at) = (dir.path().display(), source.display());
        // The kubelet's folder lies in a mount of its own, whose file system has it below /k.
        let text = format!(
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 /k {base} rw - ext4 /dev/b rw\n\
             3 2 8:2 /k/pods/u/volumes/{EMPTY_DIR}/scratch/a {at} rw - ext4 /dev/b rw\n"
        );
        let place = Table::parse(&text).place(&source);
        assert_eq!(place, Ok(Some((volume.clone(), "a".into()))));
        // In memory: the volume is a mount itself.
        let text = format!(
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / {} rw - tmpfs tmpfs rw\n3 2 0:9 /x/y {at} rw - tmpfs tmpfs rw\n",
            volume.display()
        );
        let place = Table::parse(&text).place(&source);
        assert_eq!(place, Ok(Some((volume, "x/y".into()))));
        // Of something else, or no mount at all.
        for text in [
            "1 0 8:1 / / rw - ext4 /dev/a rw\n".to_owned(),
            format!("1 0 8:1 / / rw - ext4 /dev/a rw\n3 2 8:7 / {at} rw - ext4 /dev/b rw\n"),
        ] {
            let place = Table::parse(&text).place(&source);
            let error = place.expect_err("it cannot be told");
            assert!(error.contains("scratch"), "{error}");
        }
        // A sub-path of a volume of another kind.
        let other = pod.join("volume-subpaths/claim/main/0");
        assert_eq!(Table::parse("").place(&other), Ok(None));
    }

    #[test]
    fn what_lies_in_memory_is_told_from_disk() {
        assert_eq!(kind(Path::new("/dev/shm")), VolumeKind::Memory);
        assert_eq!(kind(Path::new("/nowhere")), VolumeKind::Disk);
    }
}
