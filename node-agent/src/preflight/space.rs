//! Room for the images, and memory for what is restored.

use std::path::Path;

use rocferry_image::manifest::Manifest;
use rustix::fs::statvfs;

use super::Finding;
use crate::image::size;
use crate::process::{proc, read};
use crate::runtime::Container;

/// Images that hold neither memory nor GPU contents, and logs.
const BESIDES: u64 = 64 << 20;

/// Bytes that a dump writes down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    memory: u64,
    gpu: u64,
    /// Of files that come along.
    files: u64,
}

impl Needs {
    /// Of a container with these processes.
    pub(super) fn of(container: &Container, processes: &[u32]) -> Self {
        let oci = container.oci.as_ref();
        Self {
            memory: processes.iter().map(|pid| memory(*pid)).sum(),
            gpu: processes.iter().map(|pid| gpu_memory(*pid)).sum(),
            files: oci.and_then(|oci| used(&oci.shared_memory()?)).unwrap_or(0),
        }
    }

    /// Of containers together, which share what they have of files.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            gpu: self.gpu.saturating_add(other.gpu),
            files: self.files.max(other.files),
        }
    }

    /// With files more.
    pub(super) fn with_files(self, bytes: u64) -> Self {
        let files = self.files.saturating_add(bytes);
        Self { files, ..self }
    }

    /// Bytes of memory that its processes take in a restore.
    pub(super) const fn of_processes(self) -> u64 {
        self.memory
    }
}

/// Room that the dump needs.
pub(super) fn of_dump(needs: Needs, spool: &Path) -> Option<Finding> {
    let Needs { memory, gpu, files } = needs;
    let needed = memory
        .saturating_add(gpu)
        .saturating_add(files)
        .saturating_add(BESIDES);
    let free = match free(spool) {
        Ok(free) => free,
        Err(finding) => return Some(finding),
    };
    (free < needed).then(|| {
        Finding::refusal(
            "space",
            format!(
                "{} has {} free; {} are needed ({} of memory and files, {} of GPU memory)",
                spool.display(),
                size(free),
                size(needed),
                size(memory.saturating_add(files)),
                size(gpu)
            ),
        )
    })
}

/// Bytes of the files below a folder; what cannot be read does not count.
pub(super) fn of_files(folder: &Path) -> u64 {
    let (mut sum, mut waiting) = (0u64, vec![folder.to_owned()]);
    while let Some(dir) = waiting.pop() {
        let entries = std::fs::read_dir(&dir).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => waiting.push(entry.path()),
                Ok(meta) if meta.is_file() => sum = sum.saturating_add(meta.len()),
                _ => {}
            }
        }
    }
    sum
}

/// Room that the files of a checkpoint need, and memory that the processes will.
pub(super) fn of_restore(manifest: &Manifest, spool: &Path) -> Vec<Finding> {
    let mut found = Vec::new();
    let sizes = manifest.files.iter().map(|file| {
        let bytes: u64 = file.spans().iter().map(|span| span.size).sum();
        (file.path.rsplit('/').next().unwrap_or_default(), bytes)
    });
    let (mut all, mut pages) = (BESIDES, 0u64);
    for (name, bytes) in sizes {
        all = all.saturating_add(bytes);
        if name.starts_with("pages-") {
            pages = pages.saturating_add(bytes);
        }
    }
    match free(spool) {
        Err(finding) => found.push(finding),
        Ok(free) if free < all => found.push(Finding::refusal(
            "space",
            format!(
                "{} has {} free; {} are needed",
                spool.display(),
                size(free),
                size(all)
            ),
        )),
        Ok(_) => {}
    }
    let text = read(Path::new("/proc/meminfo")).unwrap_or_default();
    if let Some(available) = kilobytes(&text, "MemAvailable:")
        && available < pages
    {
        found.push(Finding::refusal(
            "memory",
            format!(
                "This machine has {} of memory left; the processes need {}",
                size(available),
                size(pages)
            ),
        ));
    }
    found
}

fn free(spool: &Path) -> Result<u64, Finding> {
    match statvfs(spool) {
        Ok(stat) => Ok(stat.f_bavail.saturating_mul(stat.f_frsize)),
        Err(errno) => Err(Finding::refusal(
            "space",
            format!("Cannot tell what is free in {}: {errno}", spool.display()),
        )),
    }
}

/// Bytes in use of a file system.
fn used(mount: &Path) -> Option<u64> {
    let stat = statvfs(mount).ok()?;
    let blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
    Some(blocks.saturating_mul(stat.f_frsize))
}

/// Bytes of memory of a process that CRIU writes down.
fn memory(pid: u32) -> u64 {
    let text = read(&proc(pid).join("status")).unwrap_or_default();
    ["RssAnon:", "RssShmem:", "VmSwap:"]
        .iter()
        .filter_map(|name| kilobytes(&text, name))
        .sum()
}

/// Bytes of GPU memory of a process, as KFD counts them.
fn gpu_memory(pid: u32) -> u64 {
    let dir = Path::new("/sys/class/kfd/kfd/proc").join(pid.to_string());
    let Ok(entries) = std::fs::read_dir(&dir) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"vram_"))
        .filter_map(|entry| read(&entry.path()).ok()?.trim().parse::<u64>().ok())
        .sum()
}

/// A number of kB in a file of `/proc`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_proc_are_bytes() {
        let text = "Name:\tx\nRssAnon:\t    1500 kB\nVmSwap:\t0 kB\n";
        assert_eq!(kilobytes(text, "RssAnon:"), Some(1500 * 1024));
        assert_eq!(kilobytes(text, "RssShmem:"), None);
        assert!(memory(std::process::id()) > 100 << 10);
        assert_eq!(gpu_memory(std::process::id()), 0);
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("below")).expect("made");
        for (name, size) in [("a", 1000), ("below/b", 500)] {
            std::fs::write(dir.path().join(name), vec![0; size]).expect("written");
        }
        assert_eq!(of_files(dir.path()), 1500);
        assert_eq!(of_files(Path::new("/nowhere")), 0);
        assert!(free(Path::new("/")).is_ok_and(|free| free > 0));
        assert!(free(Path::new("/nowhere")).is_err_and(|finding| finding.refuses));
    }
}
