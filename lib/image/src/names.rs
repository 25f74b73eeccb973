//! Names of the image files, as `printf` of the C plugin makes them.

use rocferry_topology::{RenderMinor, UserGpuId};

use crate::{FileId, TaskPid};

/// The restore result file of ours, in CRIU's work directory.
pub const RESULT: &str = "rocferry-result.json";

/// CRIU's process tree.
pub const PSTREE: &str = "pstree.img";

/// CRIU's seccomp filters, if there are any.
pub const SECCOMP: &str = "seccomp.img";

/// `core-%u.img`: CRIU's state of a thread.
#[must_use]
pub fn core(tid: u32) -> String {
    format!("core-{tid}.img")
}

/// Is it `mountpoints-%u.img`, CRIU's list of the mounts of a namespace?
#[must_use]
pub fn is_mounts(name: &str) -> bool {
    let number = name.strip_prefix("mountpoints-");
    let number = number.and_then(|number| number.strip_suffix(".img"));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// `amdgpu-kfd-%d.img`: state of the process behind this open /dev/kfd.
#[must_use]
pub fn kfd(file: FileId) -> String {
    format!("amdgpu-kfd-{file}.img")
}

/// `amdgpu-renderD-%d.img`: an open render node.
#[must_use]
pub fn render(file: FileId) -> String {
    format!("amdgpu-renderD-{file}.img")
}

/// `amdgpu-pages-%d-%04x.img`: contents of the buffer objects of one GPU. `file` is that of /dev/kfd.
#[must_use]
pub fn pages(file: FileId, gpu: UserGpuId) -> String {
    format!("amdgpu-pages-{file}-{gpu:x}.img")
}

/// `amdgpu-drm-pages-%d-%d-%04x.img`: content of one GEM object. `file` is that of the render node,
/// `minor` the one on the dumped machine, `bo` the index in the render image.
#[must_use]
pub fn drm_pages(file: FileId, minor: RenderMinor, bo: u32) -> String {
    format!("amdgpu-drm-pages-{file}-{}-{bo:04x}.img", minor.get())
}

/// `amdgpu-dmabuf_%d.img`: an open dma-buf.
#[must_use]
pub fn dmabuf(file: FileId) -> String {
    format!("amdgpu-dmabuf_{file}.img")
}

/// `rocferry-file-%d.img`: what CRIU does not record about an open file of ours.
#[must_use]
pub fn file_record(file: FileId) -> String {
    format!("rocferry-file-{file}.img")
}

/// `rocferry-task-%d.img`: devices and device mappings of a process.
#[must_use]
pub fn task_record(pid: TaskPid) -> String {
    format!("rocferry-task-{pid}.img")
}

/// `rocferry-index-%d-%04x.img`: digests of the blocks of the pages file with the same numbers.
#[must_use]
pub fn index(file: FileId, gpu: UserGpuId) -> String {
    format!("rocferry-index-{file}-{gpu:x}.img")
}

/// The file id in the name of a kfd image, for searching a directory.
#[must_use]
pub fn parse_kfd(name: &str) -> Option<FileId> {
    let number = name.strip_prefix("amdgpu-kfd-")?.strip_suffix(".img")?;
    let id = FileId(number.parse().ok()?);
    // Only the form that `kfd` makes: no sign, no leading zeros.
    (kfd(id) == name).then_some(id)
}

/// The pid in the name of a task record, for searching a directory.
#[must_use]
pub fn parse_task_record(name: &str) -> Option<TaskPid> {
    let number = name.strip_prefix("rocferry-task-")?.strip_suffix(".img")?;
    let pid = TaskPid(number.parse().ok()?);
    (task_record(pid) == name).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_c_plugin() {
        assert_eq!(kfd(FileId(3)), "amdgpu-kfd-3.img");
        assert_eq!(render(FileId(12)), "amdgpu-renderD-12.img");
        assert_eq!(pages(FileId(3), UserGpuId(0xab)), "amdgpu-pages-3-00ab.img");
        assert_eq!(
            pages(FileId(3), UserGpuId(0xA12F)),
            "amdgpu-pages-3-a12f.img"
        );
        assert_eq!(
            pages(FileId(3), UserGpuId(0x1_A12F)),
            "amdgpu-pages-3-1a12f.img"
        );
        assert_eq!(
            drm_pages(FileId(7), RenderMinor(129), 0x1f),
            "amdgpu-drm-pages-7-129-001f.img"
        );
        assert_eq!(dmabuf(FileId(9)), "amdgpu-dmabuf_9.img");
    }

    #[test]
    fn names_of_ours_keep_their_prefix() {
        assert_eq!(file_record(FileId(3)), "rocferry-file-3.img");
        assert_eq!(task_record(TaskPid(1)), "rocferry-task-1.img");
        assert_eq!(
            index(FileId(3), UserGpuId(0xab)),
            "rocferry-index-3-00ab.img"
        );
        assert!(RESULT.starts_with("rocferry-"));
    }

    #[test]
    fn names_are_found_again() {
        assert_eq!(parse_kfd("amdgpu-kfd-17.img"), Some(FileId(17)));
        for other in [
            "amdgpu-kfd-.img",
            "amdgpu-kfd-1.im",
            "amdgpu-kfd-+1.img",
            "amdgpu-kfd-01.img",
        ] {
            assert_eq!(parse_kfd(other), None, "{other}");
        }
        assert_eq!(parse_task_record("rocferry-task-17.img"), Some(TaskPid(17)));
        assert_eq!(parse_task_record("rocferry-task--17.img"), None);
    }
}
