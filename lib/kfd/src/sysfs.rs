//! The few files of sysfs and procfs that belong to KFD and the render nodes.

use std::fs;
use std::path::{Path, PathBuf};

use rocferry_topology::{ActualGpuId, RenderMinor};
use rustix::io::Errno;

use crate::{DeviceNumber, KfdError};

/// A root directory below which `sys` and `proc` are mounted; `/` for the real ones.
#[derive(Debug, Clone)]
pub struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::new("/")
    }
}

impl Sysfs {
    /// Reads below `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The device number of `/dev/kfd`, from `/sys/class/kfd/kfd/dev`; `None` when the driver is not
    /// there.
    ///
    /// # Errors
    /// [`KfdError::Path`], [`KfdError::Parse`].
    pub fn kfd_device(&self) -> Result<Option<DeviceNumber>, KfdError> {
        let path = self.root.join("sys/class/kfd/kfd/dev");
        let Some(text) = read_if_there(&path)? else {
            return Ok(None);
        };
        let number = text.trim().split_once(':').and_then(|(major, minor)| {
            Some(DeviceNumber {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        });
        number.map(Some).ok_or_else(|| not_understood(&path, &text))
    }

    /// The processes that KFD holds state of: thread group ids in the initial pid namespace. Empty when
    /// the driver is not there. A process stays listed until its queues are gone.
    ///
    /// # Errors
    /// [`KfdError::Path`].
    pub fn kfd_processes(&self) -> Result<Vec<u32>, KfdError> {
        let path = self.root.join("sys/class/kfd/kfd/proc");
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(path_error(&path, &error)),
        };
        let mut pids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| path_error(&path, &error))?;
            pids.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<u32>().ok()),
            );
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// The address-space id that KFD gave a process, from `/sys/class/kfd/kfd/proc/PID/pasid`; `None`
    /// when KFD knows no such process (any more).
    ///
    /// # Errors
    /// [`KfdError::Path`], [`KfdError::Parse`].
    pub fn kfd_pasid(&self, pid: u32) -> Result<Option<u32>, KfdError> {
        let path = self
            .root
            .join(format!("sys/class/kfd/kfd/proc/{pid}/pasid"));
        let Some(text) = read_if_there(&path)? else {
            return Ok(None);
        };
        text.trim()
            .parse()
            .map(Some)
            .map_err(|_| not_understood(&path, &text))
    }

    /// The GPUs that KFD lets a process use (`vram_GPUID` files of its `proc` entry, kernel 5.9 and later),
    /// in no order; empty when KFD knows no such process.
    ///
    /// # Errors
    /// [`KfdError::Path`].
    pub fn kfd_process_gpus(&self, pid: u32) -> Result<Vec<ActualGpuId>, KfdError> {
        let path = self.root.join(format!("sys/class/kfd/kfd/proc/{pid}"));
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(path_error(&path, &error)),
        };
        let mut gpus = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| path_error(&path, &error))?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix("vram_"));
            gpus.extend(id.and_then(|id| id.parse().ok()).map(ActualGpuId));
        }
        Ok(gpus)
    }

    /// The address-space id of an open render node, from the `pasid:` line of `/proc/PID/fdinfo/FD`;
    /// `None` when there is no such line. It equals the process's own exactly for the file whose address
    /// space became the compute one.
    ///
    /// # Errors
    /// [`KfdError::Path`], [`KfdError::Parse`].
    pub fn render_pasid(&self, pid: u32, fd: u32) -> Result<Option<u32>, KfdError> {
        let path = self.root.join(format!("proc/{pid}/fdinfo/{fd}"));
        let text = fs::read_to_string(&path).map_err(|error| path_error(&path, &error))?;
        let Some(value) = text.lines().find_map(|line| line.strip_prefix("pasid:")) else {
            return Ok(None);
        };
        value
            .trim()
            .parse()
            .map(Some)
            .map_err(|_| not_understood(&path, value))
    }
}

/// The usual path of a render node.
#[must_use]
pub fn render_node_path(minor: RenderMinor) -> PathBuf {
    PathBuf::from(format!("/dev/dri/renderD{}", minor.get()))
}

/// The text of a file, or `None` when there is none. ENODEV and ESRCH: it went away under the reader.
fn read_if_there(path: &Path) -> Result<Option<String>, KfdError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NODEV | Errno::SRCH | Errno::NOTDIR) => Ok(None),
            _ => Err(path_error(path, &error)),
        },
    }
}

fn path_error(path: &Path, error: &std::io::Error) -> KfdError {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    KfdError::Path {
        path: path.to_owned(),
        errno,
    }
}

fn not_understood(path: &Path, text: &str) -> KfdError {
    KfdError::Parse {
        path: path.to_owned(),
        text: text.chars().take(80).collect(),
    }
}
