//! Files of the checkpoint that the new container finds in its root file system, its `/dev/shm` and its volumes.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use super::error::WrapperError;
use crate::layer;
use crate::spec::Spec;
use crate::ticket::{Key, Place, PodUid, SavedVolume, Ticket, TicketFolder};

/// Where an emptyDir volume is, below the pod's folder.
const EMPTY_DIR: [&str; 2] = ["volumes", "kubernetes.io~empty-dir"];
/// Where the kubelet binds parts of volumes, below the pod's folder: `VOLUME/CONTAINER/NUMBER`.
const SUB_PATHS: &str = "volume-subpaths";

/// An archive, and the folder that it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filling {
    archive: PathBuf,
    folder: PathBuf,
}

/// Where the archives of a ticket go, but that of the root file system. What is wrong, each in words.
pub(crate) fn plan(key: &Key, ticket: &Ticket, spec: &Spec) -> Result<Vec<Filling>, Vec<String>> {
    let uid = match key {
        Key::Pod { uid, .. } => Some(uid),
        Key::Container(_) => None,
    };
    let mut wrong = Vec::new();
    let mut plan = Vec::new();
    let mut add = |archive: &Path, folder: Result<PathBuf, String>| match folder {
        Ok(folder) => plan.push(Filling {
            archive: archive.to_owned(),
            folder,
        }),
        Err(reason) => wrong.push(reason),
    };
    if let Some(archive) = &ticket.shared_memory {
        add(archive, shared_memory(spec));
    }
    for volume in &ticket.volumes {
        add(&volume.archive, folder_of(volume, uid, spec));
    }
    if wrong.is_empty() {
        Ok(plan)
    } else {
        Err(wrong)
    }
}

fn shared_memory(spec: &Spec) -> Result<PathBuf, String> {
    let source = bound(spec, "/dev/shm")?;
    match source == Path::new("/dev/shm") {
        true => Err("its /dev/shm is the node's own".to_owned()),
        false => Ok(source.to_owned()),
    }
}

/// The folder of this machine that is mounted there.
fn bound<'a>(spec: &'a Spec, destination: &str) -> Result<&'a Path, String> {
    let mount = spec.mount_at(destination);
    let mount = mount.ok_or_else(|| format!("no mount at {destination}"))?;
    let source = mount.source.filter(|_| mount.kind == "bind").map(Path::new);
    let plain = |source: &&Path| {
        let mut parts = source.components().skip(1);
        source.is_absolute() && parts.all(|part| matches!(part, Component::Normal(_)))
    };
    source.filter(plain).ok_or_else(|| {
        format!("the mount at {destination} is no folder of this node that could be filled")
    })
}

/// The volume's own folder, of which the container may see a part. Of a pod it is an emptyDir volume of that pod and nothing
/// else: whatever the checkpoint says, nobody else's files are written.
fn folder_of(volume: &SavedVolume, uid: Option<&PodUid>, spec: &Spec) -> Result<PathBuf, String> {
    let SavedVolume {
        destination,
        sub_path,
        ..
    } = volume;
    let source = bound(spec, destination)?;
    let found = match uid {
        Some(uid) => empty_dir(source, sub_path, uid),
        None => without(source, sub_path),
    };
    let what = if uid.is_some() {
        "an emptyDir volume of this pod"
    } else {
        "the volume"
    };
    found.ok_or_else(|| {
        format!(
            "the mount at {destination} ({}) is not {what}{}",
            source.display(),
            if sub_path.as_os_str().is_empty() {
                String::new()
            } else {
                format!(", or not its part {}", sub_path.display())
            }
        )
    })
}

/// The path without its last parts, which are these.
fn without(path: &Path, last: &Path) -> Option<PathBuf> {
    if last.as_os_str().is_empty() {
        return Some(path.to_owned());
    }
    let count = last.components().count();
    path.ends_with(last)
        .then(|| path.ancestors().nth(count))?
        .map(Path::to_owned)
}

fn empty_dir(source: &Path, sub_path: &Path, uid: &PodUid) -> Option<PathBuf> {
    let names: Vec<&str> = source
        .components()
        .map(|part| part.as_os_str().to_str())
        .collect::<Option<_>>()?;
    let pod = names
        .windows(2)
        .position(|pair| pair[0] == "pods" && pair[1] == uid.as_str())?;
    let folder: PathBuf = names[..pod + 2].iter().collect();
    let named = |name: &str| folder.join(EMPTY_DIR[0]).join(EMPTY_DIR[1]).join(name);
    match names[pod + 2..] {
        [SUB_PATHS, name, _, _] if !sub_path.as_os_str().is_empty() => Some(named(name)),
        [first, second, name, ..] if [first, second] == EMPTY_DIR => {
            let volume = named(name);
            (without(source, sub_path)? == volume).then_some(volume)
        }
        _ => None,
    }
}

/// Puts the files there: the root file system's each time, as each try has a new one; all others once per pod.
pub(crate) fn fill(
    tickets: &TicketFolder,
    key: &Key,
    ticket: &Ticket,
    spec: &Spec,
    plan: &[Filling],
) -> Result<(), WrapperError> {
    if let Some(diff) = &ticket.rootfs_diff {
        apply(diff, &spec.root()?)?;
    }
    if plan.is_empty() {
        return Ok(());
    }
    let lock = tickets.lock_volumes(key)?;
    let mut unpacked = tickets.unpacked(key)?;
    for Filling { archive, folder } in plan {
        let place = Place::of(folder)?;
        if unpacked.is_done(archive, &place) {
            continue;
        }
        unpacked.note(archive, &place, false);
        tickets.put_unpacked(&lock, key, &unpacked)?;
        apply(archive, folder)?;
        // What is said to be done has to be there after a crash of the machine as well.
        let synced = File::open(folder).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
        synced.map_err(WrapperError::file("sync", folder))?;
        unpacked.note(archive, &place, true);
        tickets.put_unpacked(&lock, key, &unpacked)?;
    }
    Ok(())
}

fn apply(archive: &Path, folder: &Path) -> Result<(), WrapperError> {
    match layer::apply_file(archive, folder)? {
        true => Ok(()),
        false => Err(WrapperError::file("find", archive)(std::io::Error::from(
            std::io::ErrorKind::NotFound,
        ))),
    }
}

#[cfg(test)]
mod tests;
