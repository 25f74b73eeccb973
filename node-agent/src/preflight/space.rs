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

/// Room that the dump needs.
pub(super) fn of_dump(container: &Container, processes: &[u32], spool: &Path) -> Option<Finding> {
    let memory: u64 = processes.iter().map(|pid| memory(*pid)).sum();
    let gpu: u64 = processes.iter().map(|pid| gpu_memory(*pid)).sum();
    let shm = container
        .oci
        .as_ref()
        .and_then(|oci| used(&oci.shared_memory()?))
        .unwrap_or(0);
    let needed = memory + gpu + shm + BESIDES;
    let free = match free(spool) {
        Ok(free) => free,
        Err(finding) => return Some(finding),
    };
    (free < needed).then(|| {
        Finding::refusal(
            "space",
            format!(
                "{} has {} free; {} are needed ({} of memory, {} of GPU memory)",
                spool.display(),
                size(free),
                size(needed),
                size(memory + shm),
                size(gpu)
            ),
        )
    })
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

/// Room for what is in an archive: at least its own size.
pub(super) fn of_archive(bytes: u64, spool: &Path) -> Option<Finding> {
    match free(spool) {
        Err(finding) => Some(finding),
        Ok(free) if free < bytes => Some(Finding::refusal(
            "space",
            format!(
                "{} has {} free; the archive has {}",
                spool.display(),
                size(free),
                size(bytes)
            ),
        )),
        Ok(_) => None,
    }
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
        assert!(free(Path::new("/")).is_ok_and(|free| free > 0));
        assert!(free(Path::new("/nowhere")).is_err_and(|finding| finding.refuses));
    }
}
