//! The device mappings of a process, and those that cannot be restored.
//!
//! A DRM mapping must begin at the start of its BO: the kernel looks the object up by its exact offset
//! (`drm_gem_mmap()`). So a piece that `mprotect` or `munmap` has split off the front cannot be mapped
//! again by CRIU, and the dump says so instead of the restore.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use rocferry_image::{DeviceVma, VmaKind};
use rocferry_kfd::kfd::{CheckpointedBo, Offset};

use super::process::PausedProcess;
use crate::device::{Device, Devices};
use crate::error::{DumpError, system};
use crate::tracee::Tracees;

/// A line of `/proc/PID/maps` that maps a GPU device.
#[derive(Debug, PartialEq, Eq)]
struct GpuVma {
    start: u64,
    end: u64,
    pgoff: u64,
    device: Device,
    prot: u32,
    private: bool,
}

/// The mappings of a paused process, each tied to its BO; those that cannot be restored are refused.
pub(super) fn of_process(
    process: &PausedProcess,
    devices: &Devices,
) -> Result<Vec<DeviceVma>, DumpError> {
    let pid = process.pid().as_raw_nonzero().get();
    let bos = &process.checkpoint.bos;
    device_vmas(pid, devices)?
        .into_iter()
        .map(|vma| {
            let refuse = |file: String, reason| DumpError::Mapping {
                pid,
                start: vma.start,
                end: vma.end,
                file,
                reason,
            };
            let (kind, gpu, bo) = match vma.device {
                Device::Kfd => match Offset::of_kfd(vma.pgoff) {
                    Offset::ReservedMemory(_) => {
                        let reason = "it is the trap-handler page that the driver maps on APUs";
                        return Err(refuse("/dev/kfd".to_owned(), reason));
                    }
                    Offset::Events => (VmaKind::Kfd, None, None),
                    Offset::Doorbell(actual) | Offset::Mmio(actual) => {
                        let bo = bos
                            .iter()
                            .position(|bo| bo.offset == vma.pgoff && !bo.flags.has_contents());
                        (VmaKind::Kfd, process.user_id(actual), bo)
                    }
                },
                Device::Render(minor) => {
                    let gpu = devices
                        .gpu(minor)
                        .and_then(|actual| process.user_id(actual));
                    let Some(gpu) = gpu else {
                        let reason = "the process has no KFD memory on that GPU";
                        return Err(refuse(minor.to_string(), reason));
                    };
                    let on_gpu = |bo: &CheckpointedBo| bo.gpu == gpu && bo.flags.has_contents();
                    let bo = bos.iter().position(|bo| {
                        on_gpu(bo) && bo.offset == vma.pgoff && vma.end - vma.start <= bo.size
                    });
                    if bo.is_none() {
                        let holds = |bo: &CheckpointedBo| {
                            on_gpu(bo) && vma.pgoff >= bo.offset && vma.pgoff - bo.offset < bo.size
                        };
                        let inside = bos.iter().any(holds);
                        let reason = if inside {
                            "it begins inside a BO, and the kernel maps a BO from its start only"
                        } else {
                            "it maps a GEM object that KFD does not own, which is not restored yet"
                        };
                        return Err(refuse(minor.to_string(), reason));
                    }
                    (VmaKind::Render, Some(gpu), bo)
                }
            };
            Ok(DeviceVma {
                start: vma.start,
                end: vma.end,
                pgoff: vma.pgoff,
                kind,
                gpu,
                bo: bo.and_then(|bo| u32::try_from(bo).ok()),
                prot: vma.prot,
                private: vma.private,
            })
        })
        .collect()
}

/// Refuses mappings of GPU devices in tasks without an open `/dev/kfd` of their own. Children keep a parent's
/// render-node mappings over fork, and nothing could give them the new offsets. And CRIU shows no file of a
/// process that has closed all of them: its GPU state would be left out of the images in silence.
pub(super) fn check_all_tasks(tracees: &Tracees, devices: &Devices) -> Result<(), DumpError> {
    for task in tracees.iter() {
        let pid = task.pid.as_raw_nonzero().get();
        let vmas = device_vmas(pid, devices)?;
        let Some(vma) = vmas.first() else { continue };
        let own = tracees
            .own_kfd_fd(task)
            .map_err(system(format!("the open files of process {pid}")))?;
        if own.is_none() {
            let file = match vma.device {
                Device::Kfd => "/dev/kfd".to_owned(),
                Device::Render(minor) => minor.to_string(),
            };
            let reason = if task.has_kfd_process {
                "the process has closed its own /dev/kfd, through which alone its GPU state can be reached"
            } else {
                "the process has no KFD context of its own (inherited over fork)"
            };
            let (start, end) = (vma.start, vma.end);
            return Err(DumpError::Mapping {
                pid,
                start,
                end,
                file,
                reason,
            });
        }
    }
    Ok(())
}

/// Mappings of GPU devices in a task, by address.
fn device_vmas(pid: i32, devices: &Devices) -> Result<Vec<GpuVma>, DumpError> {
    let path = format!("/proc/{pid}/maps");
    let maps = fs::read_to_string(&path).map_err(system(path))?;
    // The device of a file is looked up once per inode: a process maps few files many times.
    let mut known: HashMap<(&str, &str), Option<Device>> = HashMap::new();
    let mut found = Vec::new();
    for line in maps.lines() {
        let Some(map) = MapsLine::parse(line) else {
            continue;
        };
        if map.inode == "0" {
            continue;
        }
        let device = *known.entry((map.dev, map.inode)).or_insert_with(|| {
            // Follows the link to the mapped inode itself, wherever its path leads today.
            let file = format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end);
            let inode = fs::metadata(file).ok()?;
            devices.classify(inode.mode(), inode.rdev())
        });
        if let Some(device) = device {
            found.push(GpuVma {
                start: map.start,
                end: map.end,
                pgoff: map.offset,
                device,
                prot: map.prot,
                private: map.private,
            });
        }
    }
    Ok(found)
}

/// The fields of a maps line that matter here.
#[derive(Debug, PartialEq, Eq)]
struct MapsLine<'a> {
    start: u64,
    end: u64,
    offset: u64,
    prot: u32,
    private: bool,
    dev: &'a str,
    inode: &'a str,
}

impl<'a> MapsLine<'a> {
    /// `start-end perms offset dev inode path`, numbers in hexadecimal but for the inode.
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let perms = fields.next()?.as_bytes();
        let bit = |at: usize, letter, bit| {
            if perms.get(at) == Some(&letter) {
                bit
            } else {
                0
            }
        };
        let offset = fields.next()?;
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            // PROT_READ, PROT_WRITE, PROT_EXEC of mman.h
            prot: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4),
            private: perms.get(3) == Some(&b'p'),
            dev: fields.next()?,
            inode: fields.next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines_with_any_path_are_read() {
        let line =
            "7f00aa000000-7f00aa200000 rw-s 100004000 00:06 523   /dev/dri/renderD128 (deleted)";
        let want = MapsLine {
            start: 0x7f00_aa00_0000,
            end: 0x7f00_aa20_0000,
            offset: 0x1_0000_4000,
            prot: 3,
            private: false,
            dev: "00:06",
            inode: "523",
        };
        assert_eq!(MapsLine::parse(line), Some(want));
        assert!(MapsLine::parse("7f00-7f01 rw-p 00000000 00:00 0 ").is_some());
        assert_eq!(MapsLine::parse("garbage"), None);
    }
}
