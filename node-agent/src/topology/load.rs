//! Where systems come from: this machine, a topology tree, a published topology, a checkpoint.

mod file;
mod images;

use std::fs;
use std::path::{Path, PathBuf};

use rocferry_image::TaskPid;
use rocferry_topology::{SYSFS_ROOT, System, UserGpuId};

use crate::error::Error;

/// Name of the machine at hand on the command line.
pub(super) const LIVE: &str = "live";

/// Where a root file system, or a copy of its `sys`, has its topology.
const PLACES: [&str; 3] = [
    "",
    "sys/class/kfd/kfd/topology",
    "sys/devices/virtual/kfd/kfd/topology",
];

/// GPUs that are to be placed: those of one process, or of a whole machine.
#[derive(Debug)]
pub(super) struct Source {
    /// `None` for a machine.
    pub(super) process: Option<Process>,
    pub(super) system: System<UserGpuId>,
}

/// A process of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: TaskPid,
    /// File that holds its state.
    pub(super) image: String,
}

/// A machine by name: `live`, a folder with a topology tree, or a file with a published topology.
pub(super) fn machine(name: &Path) -> Result<System, Error> {
    if name.as_os_str() == LIVE {
        return live();
    }
    if !is_dir(name)? {
        return file::read(name);
    }
    match tree(name)? {
        Some(system) => Ok(system),
        None if !images::find(name)?.is_empty() => Err(Error::Empty {
            path: name.to_owned(),
            missing: "a checkpoint and no topology",
            next_step: "Name the checkpoint with --from, and where it is to go with --to",
        }),
        None => Err(Error::Empty {
            path: name.to_owned(),
            missing: "no topology: neither nodes nor sys/class/kfd/kfd/topology/nodes",
            next_step: "Name a copy of /sys/class/kfd/kfd/topology, or what `rocferry-agent topology show -o json` has written",
        }),
    }
}

/// The same, or a folder with the images of a dump, which has a source for each process.
pub(super) fn sources(name: &Path) -> Result<Vec<Source>, Error> {
    if name.as_os_str() != LIVE && is_dir(name)? {
        let found = images::read(name)?;
        if !found.is_empty() {
            return Ok(found);
        }
        if tree(name)?.is_none() {
            return Err(Error::Empty {
                path: name.to_owned(),
                missing: "no amdgpu-kfd-*.img",
                next_step: "Name the folder that CRIU dumped into; in an unpacked archive that is `checkpoint`. A dump of processes that use no GPU has none",
            });
        }
    }
    let system = machine(name)?;
    Ok(vec![Source {
        process: None,
        system: system.rename(|gpu| Some(UserGpuId(gpu.id.get()))),
    }])
}

/// Does this folder hold GPU state?
pub(super) fn has_gpus(images: &Path) -> Result<bool, Error> {
    Ok(!images::find(images)?.is_empty())
}

/// The machine at hand.
pub(super) fn live() -> Result<System, Error> {
    System::read_live().map_err(|source| Error::Tree {
        place: "this machine".to_owned(),
        source,
    })
}

/// The tree that is or lies in this folder, if there is one, with the modes of the cards where the folder has these.
pub(super) fn tree(dir: &Path) -> Result<Option<System>, Error> {
    let mut places = PLACES.iter().map(|place| dir.join(place));
    let Some(root) = places.find(|place| place.join("nodes").is_dir()) else {
        return Ok(None);
    };
    let mut system = System::read(&root).map_err(|source| Error::Tree {
        place: dir.display().to_string(),
        source,
    })?;
    let cards = if root == Path::new(SYSFS_ROOT) {
        PathBuf::from("/sys/bus/pci/devices")
    } else {
        dir.join("sys/bus/pci/devices")
    };
    system.read_partition_modes(&cards);
    Ok(Some(system))
}

fn is_dir(path: &Path) -> Result<bool, Error> {
    let metadata = fs::metadata(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(metadata.is_dir())
}
