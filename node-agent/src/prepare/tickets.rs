//! Tickets for the containers of a checkpoint that has been read.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::checkpoint::{ROOTFS_DIFF, SHARED_MEMORY};
use crate::error::Error;
use crate::pod::{MAX_RECORD, POD_RECORD, PodRecord, SHARED_MEMORY_ARCHIVE};
use crate::spec::{Spec, plain};
use crate::ticket::{
    ContainerName, ExpectedDevice, ExpectedMount, SavedVolume, Ticket, read_bounded,
};

/// Largest `spec.dump`, in bytes.
const MAX_SPEC: u64 = 32 << 20;

/// Beginning of the paths of GPUs, which are matched and not compared by name.
const RENDER_NODES: &str = "/dev/dri/";

/// A ticket, and the container in the checkpoint that it is for.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) was: ContainerName,
    pub(super) ticket: Ticket,
}

/// Drafts tickets for all containers of the checkpoint in this folder. `single`: the container's name, if it is the
/// checkpoint of one container.
pub(super) fn drafts(
    tree: &Path,
    checkpoint: &str,
    single: Option<ContainerName>,
) -> Result<Vec<Draft>, Error> {
    let record = tree.join(POD_RECORD);
    match read_bounded(&record, MAX_RECORD)? {
        Some(bytes) => {
            let record = PodRecord::parse(&bytes).map_err(|error| Error::Unusable {
                path: record,
                reason: crate::error::causes(&error),
            })?;
            pod(tree, checkpoint, &record)
        }
        None => {
            let was = single.ok_or_else(|| Error::Unusable {
                path: tree.to_owned(),
                reason: "it is the checkpoint of one container and does not say of which: --map OLD=NEW does"
                    .to_owned(),
            })?;
            let shared = there(tree.join(SHARED_MEMORY));
            let ticket = container(tree, checkpoint, shared)?;
            Ok(vec![Draft { was, ticket }])
        }
    }
}

fn pod(tree: &Path, checkpoint: &str, record: &PodRecord) -> Result<Vec<Draft>, Error> {
    let missing = |path: PathBuf| Error::Unusable {
        path,
        reason: "the checkpoint names it and does not have it".to_owned(),
    };
    let shared = tree.join(SHARED_MEMORY_ARCHIVE);
    if record.shared_memory && !shared.is_file() {
        return Err(missing(shared));
    }
    let mut drafts = Vec::new();
    for one in &record.containers {
        let mut volumes = Vec::new();
        for volume in &record.volumes {
            let archive = tree.join(volume.archive());
            if !archive.is_file() {
                return Err(missing(archive));
            }
            let mounts = volume.mounts.iter();
            for mount in mounts.filter(|mount| mount.container == one.name) {
                volumes.push(SavedVolume {
                    archive: archive.clone(),
                    destination: mount.destination.display().to_string(),
                    sub_path: mount.sub_path.clone(),
                });
            }
        }
        // One that mounts a volume there does not see what the others share.
        let own = volumes
            .iter()
            .any(|volume| plain(&volume.destination) == "/dev/shm");
        let folder = tree.join(one.folder());
        let mut ticket = container(&folder, checkpoint, None)?;
        let sees = ticket
            .mounts
            .iter()
            .any(|mount| plain(&mount.destination) == "/dev/shm" && mount.kind == "bind");
        ticket.shared_memory = (record.shared_memory && sees && !own).then(|| shared.clone());
        ticket.volumes = volumes;
        drafts.push(Draft {
            was: one.name.clone(),
            ticket,
        });
    }
    Ok(drafts)
}

/// The files of a container.
fn container(folder: &Path, checkpoint: &str, shared: Option<PathBuf>) -> Result<Ticket, Error> {
    let images = folder.join("checkpoint");
    if !images.join("inventory.img").is_file() {
        return Err(Error::Unusable {
            path: images,
            reason: "it holds no images of CRIU".to_owned(),
        });
    }
    let path = folder.join("spec.dump");
    let text = read_bounded(&path, MAX_SPEC)?.ok_or_else(|| Error::Unusable {
        path: path.clone(),
        reason: "the specification of the container is missing".to_owned(),
    })?;
    let spec = Spec::parse(folder, text)?;
    let mut ticket = Ticket::new(checkpoint, images);
    ticket.rootfs_diff = there(folder.join(ROOTFS_DIFF));
    ticket.shared_memory = shared;
    for mount in spec.mounts() {
        let destination = plain(mount.destination);
        ticket.mounts.retain(|one| one.destination != destination);
        ticket.mounts.push(ExpectedMount {
            destination,
            kind: mount.kind.to_owned(),
        });
    }
    let devices = spec.part("linux", "devices").and_then(Value::as_array);
    let devices = devices.into_iter().flatten();
    let paths = devices.filter_map(|device| device.get("path")?.as_str());
    ticket.devices = paths
        .filter(|path| !path.starts_with(RENDER_NODES))
        .map(|path| ExpectedDevice {
            path: path.to_owned(),
        })
        .collect();
    Ok(ticket)
}

fn there(file: PathBuf) -> Option<PathBuf> {
    file.is_file().then_some(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SPEC: &str = r#"{"mounts":[{"destination":"/proc","type":"proc","source":"proc"},
        {"destination":"/dev/shm/","type":"bind","source":"/run/shm","options":["rbind"]}],
        "linux":{"devices":[{"path":"/dev/kfd"},{"path":"/dev/dri/renderD128"}]}}"#;

    fn write(tree: &Path, files: &[(&str, &str)]) {
        for (name, content) in files {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().expect("parent")).expect("made");
            fs::write(path, content).expect("written");
        }
    }

    fn name(text: &str) -> ContainerName {
        text.parse().expect("name")
    }

    #[test]
    fn a_single_container() {
        let dir = tempfile::tempdir().expect("folder");
        let tree = dir.path();
        let single = || drafts(tree, "c", Some(name("main")));
        single().expect_err("nothing there");
        write(tree, &[("checkpoint/inventory.img", "")]);
        single().expect_err("no specification");
        write(tree, &[("spec.dump", SPEC), ("rootfs-diff.tar", "")]);
        drafts(tree, "c", None).expect_err("no name");
        let draft = single().expect("drafts").remove(0);
        assert_eq!(draft.was, name("main"));
        let ticket = draft.ticket;
        assert_eq!(ticket.images, tree.join("checkpoint"));
        assert_eq!(ticket.rootfs_diff, Some(tree.join("rootfs-diff.tar")));
        assert_eq!(ticket.shared_memory, None);
        assert_eq!(ticket.devices.len(), 1);
        let mounts: Vec<_> = ticket
            .mounts
            .iter()
            .map(|mount| (mount.destination.as_str(), mount.kind.as_str()))
            .collect();
        assert_eq!(mounts, [("/proc", "proc"), ("/dev/shm", "bind")]);
        write(tree, &[("devshm-checkpoint.tar", "")]);
        let ticket = single().expect("drafts").remove(0).ticket;
        assert_eq!(
            ticket.shared_memory,
            Some(tree.join("devshm-checkpoint.tar"))
        );
    }

    fn record(volumes: &str) -> String {
        format!(
            r#"{{"version":1,"namespace":"n","name":"p","uid":"u","containers":[{{"name":"a","id":"1"}},{{"name":"b","id":"2"}}],
            "volumes":[{volumes}],"sharedMemory":true}}"#
        )
    }

    #[test]
    fn a_pod_with_volumes() {
        let dir = tempfile::tempdir().expect("folder");
        let tree = dir.path();
        let volumes = r#"{"name":"v","kind":"Disk","mounts":[{"container":"a","destination":"/v","subPath":"x"},
            {"container":"b","destination":"/dev/shm"}]}"#;
        write(
            tree,
            &[
                ("pod.json", &record(volumes)),
                ("containers/a/checkpoint/inventory.img", ""),
                ("containers/a/spec.dump", SPEC),
                ("containers/b/checkpoint/inventory.img", ""),
                ("containers/b/spec.dump", SPEC),
                ("containers/b/rootfs-diff.tar", ""),
            ],
        );
        drafts(tree, "c", None).expect_err("no shm.tar");
        write(tree, &[("shm.tar", "")]);
        drafts(tree, "c", None).expect_err("no volume");
        write(tree, &[("volumes/v.tar", "")]);
        let found = drafts(tree, "c", None).expect("drafts");
        let [a, b] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((a.was.as_str(), b.was.as_str()), ("a", "b"));
        assert_eq!(a.ticket.shared_memory, Some(tree.join("shm.tar")));
        assert_eq!(a.ticket.volumes[0].sub_path, Path::new("x"));
        // It has the volume there.
        assert_eq!(b.ticket.shared_memory, None);
        assert_eq!(b.ticket.volumes[0].archive, tree.join("volumes/v.tar"));
        assert_eq!(
            (&a.ticket.rootfs_diff, &b.ticket.rootfs_diff),
            (&None, &Some(tree.join("containers/b/rootfs-diff.tar")))
        );
        for bad in ["{}", "", &record(r#"{"name":"../v"}"#)] {
            write(tree, &[("pod.json", bad)]);
            drafts(tree, "c", None).expect_err(bad);
        }
    }
}
