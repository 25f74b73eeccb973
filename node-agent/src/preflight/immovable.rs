//! What a process has that cannot be taken along.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Finding;
use crate::process::{numbers, proc, read};
use crate::runtime::Container;
use crate::wrapper::is_own_config;

/// Devices that are everywhere, or that the plugin takes along.
const DEVICES: [&str; 10] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/kfd",
    "/dev/console",
    "/dev/net/tun",
];

/// Folders of such devices.
const DEVICE_FOLDERS: [&str; 3] = ["/dev/pts/", "/dev/shm/", "/dev/dri/renderD"];

/// The annotation that gives a runtime a configuration of CRIU for this container.
const CRIU_CONFIG: &str = "org.criu.config";

/// Does one of them have a GPU open?
pub(crate) fn uses_gpu(processes: &[u32]) -> bool {
    processes.iter().any(|pid| {
        let mut open = opened(*pid).into_iter();
        open.any(|name| name == "/dev/kfd" || name.starts_with("/dev/dri/renderD"))
    })
}

pub(super) fn check(container: &Container, processes: &[u32]) -> Vec<Finding> {
    let mut found = Vec::new();
    for pid in processes {
        for name in opened(*pid) {
            found.extend(of_file(*pid, &name));
        }
        let maps = read(&proc(*pid).join("maps")).unwrap_or_default();
        found.extend(of_maps(*pid, &maps, own_ipc(*pid)));
        let status = read(&proc(*pid).join("status")).unwrap_or_default();
        found.extend(of_status(*pid, &status));
        if in_other_user_namespace(*pid) {
            found.push(Finding::refusal(
                "user-namespace",
                format!("Process {pid} is in a user namespace of its own, which is not supported"),
            ));
        }
    }
    if let Some(oci) = &container.oci
        && let Some(file) = oci.annotation(CRIU_CONFIG)
        && !is_own_config(Path::new(file), &container.id, &oci.program)
    {
        found.push(Finding::refusal(
            "criu-config",
            format!(
                "The container has the annotation {CRIU_CONFIG}={file}: what is in it would be done as root on this node"
            ),
        ));
    }
    if uses_gpu(processes) {
        found.extend(of_gpus());
    }
    found.dedup();
    found
}

/// Names of what is open, each once.
fn opened(pid: u32) -> BTreeSet<String> {
    let fds = proc(pid).join("fd");
    numbers(&fds)
        .into_iter()
        .filter_map(|fd| fs::read_link(fds.join(fd.to_string())).ok())
        .filter_map(|target| target.into_os_string().into_string().ok())
        .collect()
}

fn of_file(pid: u32, name: &str) -> Option<Finding> {
    let refused = |about, what: String| {
        Some(Finding::refusal(
            about,
            format!("Process {pid} has {what}, which cannot be taken along"),
        ))
    };
    match name {
        "anon_inode:[io_uring]" => refused("io-uring", "an io_uring".to_owned()),
        "anon_inode:[perf_event]" => refused("perf", "a performance counter".to_owned()),
        "anon_inode:bpf-map" | "anon_inode:bpf-prog" | "anon_inode:bpf_link" => {
            refused("bpf", "BPF maps or programs".to_owned())
        }
        "anon_inode:[userfaultfd]" => refused("userfaultfd", "a userfaultfd".to_owned()),
        "anon_inode:[fanotify]" => None,
        _ if name.starts_with("anon_inode:kvm") => refused("kvm", "a virtual machine".to_owned()),
        _ if name.starts_with("/dev/mqueue/") => {
            refused("mqueue", format!("the message queue {name}"))
        }
        _ if name.starts_with("/dev/")
            && !DEVICES.contains(&name)
            && !DEVICE_FOLDERS.iter().any(|folder| name.starts_with(folder))
            && is_device(pid, name) =>
        {
            refused("device", format!("the device {name} open"))
        }
        _ => None,
    }
}

/// Below `/dev` lie other files too.
fn is_device(pid: u32, name: &str) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let inside = proc(pid).join("root").join(name.trim_start_matches('/'));
    fs::metadata(inside).is_ok_and(|meta| {
        let kind = meta.file_type();
        kind.is_char_device() || kind.is_block_device()
    })
}

fn of_maps(pid: u32, maps: &str, own_ipc: bool) -> Option<Finding> {
    for line in maps.lines() {
        let Some(name) = line.splitn(6, ' ').nth(5).map(str::trim_start) else {
            continue;
        };
        if name.starts_with("/secretmem") {
            return Some(Finding::refusal(
                "secret-memory",
                format!("Process {pid} has secret memory (memfd_secret), which nobody can read"),
            ));
        }
        if name.starts_with("/SYSV") && !own_ipc {
            return Some(Finding::refusal(
                "sysv-ipc",
                format!(
                    "Process {pid} maps shared memory of System V, which lies in an IPC namespace that is not taken along"
                ),
            ));
        }
    }
    None
}

fn of_status(pid: u32, status: &str) -> Option<Finding> {
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))?;
    let tracer = tracer.trim();
    (tracer != "0").then(|| {
        Finding::refusal(
            "traced",
            format!("Process {pid} is being debugged by process {tracer}"),
        )
    })
}

/// GPUs without memory of their own: the kernel refuses to restore on them.
fn of_gpus() -> Option<Finding> {
    of_system(&rocferry_topology::System::read_live().ok()?)
}

fn of_system(system: &rocferry_topology::System) -> Option<Finding> {
    let gpu = system.gpus().find(|gpu| gpu.properties.vram.is_none())?;
    Some(Finding::refusal(
        "apu",
        format!(
            "GPU {} has no memory of its own: such GPUs cannot be checkpointed",
            gpu.id
        ),
    ))
}

/// One that has ended meanwhile is in none: it is not what keeps anything from being dumped.
fn in_other_user_namespace(pid: u32) -> bool {
    let own = namespace(std::process::id(), "user");
    namespace(pid, "user").is_some_and(|other| Some(other) != own)
}

fn namespace(pid: u32, kind: &str) -> Option<std::path::PathBuf> {
    fs::read_link(proc(pid).join("ns").join(kind)).ok()
}

/// Is its IPC namespace another one than that of the machine's first process?
fn own_ipc(pid: u32) -> bool {
    let first = fs::read_link(Path::new("/proc/1/ns/ipc")).ok();
    namespace(pid, "ipc") != first
}

#[cfg(test)]
mod tests {
    use rocferry_topology::{
        ActualGpuId, GpuNode, GpuProperties, Node, NodeId, RenderMinor, System, Vram,
    };

    use super::*;

    fn about(finding: Option<Finding>) -> Option<&'static str> {
        finding.map(|finding| finding.about)
    }

    #[test]
    fn what_cannot_be_moved_is_named() {
        let own = std::process::id();
        let of_file = |name| about(of_file(own, name));
        for (name, expected) in [
            ("anon_inode:[io_uring]", "io-uring"),
            ("anon_inode:[perf_event]", "perf"),
            ("anon_inode:bpf-map", "bpf"),
            ("anon_inode:kvm-vm", "kvm"),
            ("/dev/mqueue/q", "mqueue"),
        ] {
            assert_eq!(of_file(name), Some(expected), "{name}");
        }
        for name in [
            "/dev/null",
            "/dev/kfd",
            "/dev/dri/renderD131",
            "/dev/pts/3",
            "/dev/shm/x",
            "/dev/not-there",
            "socket:[12]",
            "anon_inode:[eventfd]",
            "/home/x",
        ] {
            assert_eq!(of_file(name), None, "{name}");
        }
        let device = ["/dev/fuse", "/dev/loop-control", "/dev/kmsg"]
            .into_iter()
            .find(|name| is_device(own, name));
        if let Some(name) = device {
            assert_eq!(of_file(name), Some("device"), "{name}");
        }
    }

    /// Field report 11: the kernel refuses an APU only at the restore.
    #[test]
    fn a_gpu_without_memory_of_its_own_is_named() {
        let card = |vram| GpuNode {
            node: NodeId(1),
            id: ActualGpuId(28561),
            render_minor: RenderMinor(128),
            domain: 0,
            hive_id: None,
            properties: GpuProperties {
                vram,
                ..GpuProperties::default()
            },
            location_id: None,
            unique_id: None,
            gfx_target_version: None,
            num_xcc: None,
            compute_partition: None,
            memory_partition: None,
            links: Vec::new(),
        };
        let machine = |vram| System::new(vec![Node::Gpu(card(vram))], Vec::new());
        let own = Vram {
            public: false,
            size: 1 << 30,
        };
        assert_eq!(of_system(&machine(Some(own))), None);
        assert_eq!(about(of_system(&machine(None))), Some("apu"));
    }

    #[test]
    fn a_process_that_has_ended_is_no_reason() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id();
        child.wait().expect("it ends");
        assert!(!in_other_user_namespace(pid));
        assert!(!in_other_user_namespace(std::process::id()));
        let other = std::process::Command::new("unshare")
            .args(["--user", "sleep", "60"])
            .spawn();
        // Where namespaces can be made.
        if let Ok(mut other) = other {
            let begun = std::time::Instant::now();
            let mut seen = false;
            while !seen && begun.elapsed() < std::time::Duration::from_secs(20) {
                seen = in_other_user_namespace(other.id());
                if other.try_wait().is_ok_and(|ended| ended.is_some()) {
                    return;
                }
                std::thread::yield_now();
            }
            other.kill().expect("it is ours");
            other.wait().expect("it ends");
            assert!(seen, "its namespace is not seen");
        }
    }

    #[test]
    fn memory_that_cannot_be_moved_is_named() {
        let line = |name: &str| format!("7f00-7f01 rw-s 00000000 00:01 2   {name}\n");
        assert_eq!(
            about(of_maps(1, &line("/secretmem (deleted)"), true)),
            Some("secret-memory")
        );
        let shared = line("/SYSV00000000 (deleted)");
        assert_eq!(about(of_maps(1, &shared, false)), Some("sysv-ipc"));
        assert_eq!(of_maps(1, &shared, true), None);
        assert_eq!(of_maps(1, &line("/usr/lib/x y.so"), false), None);
        assert_eq!(of_maps(1, "7f00-7f01 rw-s 00000000 00:01 2\n", false), None);
        assert_eq!(
            about(of_status(1, "Name:\ta\nTracerPid:\t77\n")),
            Some("traced")
        );
        assert_eq!(of_status(1, "Name:\ta\nTracerPid:\t0\n"), None);
    }
}
