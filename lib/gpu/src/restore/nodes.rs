//! Device nodes that a restored container lacks.
//!
//! A container's `/dev` is a tmpfs of its own, and CRIU fills it from the dump: with the render nodes of the
//! other machine's GPUs, and with `/dev/kfd` under the number that the kernel happened to give it there. No
//! runtime adds the nodes that the container is given here, so the task makes them. What it may open is for its
//! device cgroup to say, as before.

use std::io;
use std::path::{Path, PathBuf};

use rocferry_kfd::{DeviceNumber, Sysfs, render_node_path};
use rocferry_topology::RenderMinor;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Stat, Uid, chmodat, chownat, lstat, mkdirat, mknodat,
    renameat, stat,
};
use rustix::io::Errno;

use crate::device::KFD_PATH;
use crate::error::RestoreError;
use crate::host::{Host, log_at};

/// Where device nodes lie.
const DEV: &str = "/dev";

/// What CRIU sees before it forks, for the tasks in their mount namespaces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nodes {
    /// Identity of CRIU's own `/dev`: a task that has the same one is in no container.
    dev: Option<(u64, u64)>,
    kfd: Option<DeviceNumber>,
}

/// What is to be done about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// It is there, or what is there is not for us to change.
    Nothing,
    /// It is not there.
    Absent,
    /// A device with another number has its name.
    OtherNumber,
}

impl Nodes {
    /// Called in CRIU.
    pub(super) fn of_criu() -> Self {
        Self {
            dev: identity(),
            kfd: Sysfs::default().kfd_device().ok().flatten(),
        }
    }

    /// Makes sure that the task has `/dev/kfd`, with this machine's number.
    pub(super) fn kfd(&self, host: &dyn Host) -> Result<(), RestoreError> {
        match self.kfd {
            Some(number) => self.provide(host, Path::new(KFD_PATH), number),
            // No driver: the open will say so.
            None => Ok(()),
        }
    }

    /// Makes sure that the task has a GPU's render node.
    pub(super) fn render(&self, host: &dyn Host, minor: RenderMinor) -> Result<(), RestoreError> {
        let number = DeviceNumber::of_render_node(minor);
        self.provide(host, &render_node_path(minor), number)
    }

    fn provide(
        &self,
        host: &dyn Host,
        path: &Path,
        number: DeviceNumber,
    ) -> Result<(), RestoreError> {
        let found = match self.lack(path, number) {
            Lack::Nothing => return Ok(()),
            Lack::Absent => "is missing",
            Lack::OtherNumber => "has another machine's number",
        };
        make(path, number).map_err(|source| RestoreError::DeviceNode {
            path: path.to_owned(),
            number,
            source,
        })?;
        log_at!(
            host,
            Info,
            "{} {found} in the container's /dev: made as {number}",
            path.display()
        );
        Ok(())
    }

    /// Outside of containers, and where that cannot be told, nothing is ever made.
    fn lack(&self, path: &Path, number: DeviceNumber) -> Lack {
        if self.dev.is_none() || self.dev == identity() {
            return Lack::Nothing;
        }
        lack(stat(path), number)
    }
}

/// Judges what `stat` has found.
fn lack(found: Result<Stat, Errno>, wanted: DeviceNumber) -> Lack {
    match found {
        Err(Errno::NOENT) => Lack::Absent,
        // Whatever is wrong there, the open says it better.
        Err(_) => Lack::Nothing,
        Ok(stat) => match DeviceNumber::of_inode(stat.st_mode, stat.st_rdev) {
            Some(number) if number != wanted => Lack::OtherNumber,
            Some(_) | None => Lack::Nothing,
        },
    }
}

/// Makes a node beside its place and moves it there, with the owner and the mode of what it replaces or of its
/// kin: CRIU compares the mode of a file that it opens again with that at the dump.
fn make(path: &Path, number: DeviceNumber) -> io::Result<()> {
    let model = model(path);
    if let Some(folder) = path.parent() {
        match mkdirat(CWD, folder, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let (mode, owner) = model.as_ref().map_or((0o666, (0, 0)), |stat| {
        (stat.st_mode & 0o7777, (stat.st_uid, stat.st_gid))
    });
    let mode = Mode::from_raw_mode(mode);
    let new = beside(path);
    mknodat(CWD, &new, FileType::CharacterDevice, mode, number.raw())?;
    // Not left to the umask that the application had.
    chmodat(CWD, &new, mode, AtFlags::empty())?;
    let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    chownat(CWD, &new, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    renameat(CWD, &new, CWD, path)?;
    Ok(())
}

/// The node that has the name now, else any render node, else `/dev/kfd`.
fn model(path: &Path) -> Option<Stat> {
    let is_device = |stat: &Stat| DeviceNumber::of_inode(stat.st_mode, stat.st_rdev).is_some();
    let device = |path: &Path| lstat(path).ok().filter(is_device);
    let kin = || {
        let entries = std::fs::read_dir(path.parent()?).ok()?;
        let paths = entries.flatten().map(|entry| entry.path());
        paths
            .filter(|path| {
                path.file_name()
                    .is_some_and(|name| name.as_encoded_bytes().starts_with(b"renderD"))
            })
            .find_map(|path| device(&path))
    };
    device(path)
        .or_else(kin)
        .or_else(|| device(Path::new(KFD_PATH)))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".rocferry-new");
    name.into()
}

fn identity() -> Option<(u64, u64)> {
    let stat = stat(DEV).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL: DeviceNumber = DeviceNumber { major: 1, minor: 3 };
    const OTHER: DeviceNumber = DeviceNumber { major: 1, minor: 5 };

    #[test]
    fn only_an_absent_node_or_another_number_is_a_lack() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(lack(stat("/dev/null"), NULL), Lack::Nothing);
        assert_eq!(lack(stat("/dev/null"), OTHER), Lack::OtherNumber);
        assert_eq!(lack(stat(folder.path().join("none")), NULL), Lack::Absent);
        // Somebody's file is not replaced, and a path that cannot be followed is not made.
        assert_eq!(lack(stat(&file), NULL), Lack::Nothing);
        assert_eq!(lack(stat(file.join("below")), NULL), Lack::Nothing);
    }

    #[test]
    fn a_node_is_made_in_another_dev_than_that_of_criu_only() {
        let here = Nodes::of_criu();
        let (device, inode) = here.dev.unwrap();
        let elsewhere = Nodes {
            dev: Some((device, inode + 1)),
            kfd: None,
        };
        let absent = Path::new("/dev/no-such-device");
        assert_eq!(elsewhere.lack(absent, NULL), Lack::Absent);
        assert_eq!(here.lack(absent, NULL), Lack::Nothing);
        assert_eq!(Nodes::default().lack(absent, NULL), Lack::Nothing);
    }
}
