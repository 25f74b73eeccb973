//! A container's namespaces, without a container runtime: own mount, pid and network namespaces (F4).

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::process::{chdir, pivot_root, setsid};

use super::round_trip::{OTHER, SMALL};
use crate::case::{BIN, Case, Lab, On};

pub(crate) const CASES: &[Case] = &[Case {
    name: "namespaces/mount_pid_and_network",
    on: On::Newest,
    limit_s: 90,
    run: mount_pid_and_network,
}];

/// CRIU works in its own namespaces, the task in those of the container.
fn mount_pid_and_network(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let root = Root::new(&lab.dir)?;
    let own = std::env::current_exe()?;
    let own = own.to_str().context("path")?;
    let path = root.path.to_str().context("path")?;
    let state = lab.dir.to_str().context("path")?.to_owned();
    let wrapper = [
        "unshare",
        "--mount",
        "--pid",
        "--net",
        "--fork",
        "--propagation",
        "private",
        own,
        "enter",
        path,
        &state,
    ];
    let mut workload = lab.workload_under(&wrapper, SMALL)?;
    for kind in ["mnt", "pid", "net"] {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}"));
        ensure!(
            of("self")? != of(&workload.pid.to_string())?,
            "the workload shares the {kind} namespace"
        );
    }
    let outside = ["/dev", "/sys", &state].map(|dir| format!("mnt[{dir}]:{dir}"));
    let mut args: Vec<_> = outside
        .iter()
        .flat_map(|mount| ["--external", mount])
        .collect();
    let dump = lab.dump_with(&workload, &args)?;
    lab.sim.load(&format!("preset=gfx90a-2 {OTHER}"))?;
    args.extend(["--root", path]);
    lab.restore_with(&mut workload, &dump, &args)?;
    workload.prove()?;
    workload.advances()?;
    lab.no_stray_access()?;
    workload.finish()
}

/// The first process of the new namespaces: makes `root` its root, with the machine's devices, the folder of
/// the state files and a /proc of its own, and becomes `command`. The verb `enter` of the command line.
pub(crate) fn enter(root: &Path, state: &Path, command: &[String]) -> Result<bool> {
    let (program, args) = command.split_first().context("no command")?;
    // What is open from outside of the new root could not be dumped.
    let log = fs::read_link("/proc/self/fd/2")?;
    mount_bind(root, root)?;
    for dir in [Path::new("/dev"), Path::new("/sys"), state] {
        mount_bind(dir, inside(root, dir)).with_context(|| format!("bind {}", dir.display()))?;
    }
    mount("proc", root.join("proc"), "proc", MountFlags::empty(), None)?;
    // Taken away at last, so that nothing of the old root is left in the namespace.
    pivot_root(root, root.join("old"))?;
    chdir("/")?;
    unmount("/old", UnmountFlags::DETACH)?;
    setsid()?;
    let null = || {
        fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
    };
    let log = fs::OpenOptions::new().append(true).open(&log);
    let mut become_it = Command::new(program);
    become_it.args(args).stdin(null()?).stdout(null()?);
    become_it.stderr(log.context("the log")?);
    Err(become_it.exec().into())
}

/// Where an absolute path lies below `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// A root file system with the workload in it. A mount of its own, since CRIU wants one.
struct Root {
    path: PathBuf,
}

impl Root {
    fn new(state: &Path) -> Result<Self> {
        // Not below the folder of the case, which is mounted inside.
        let path = state.with_extension("root");
        let _ = fs::remove_dir_all(&path);
        for dir in ["/dev", "/sys", "/proc", "/old", BIN] {
            fs::create_dir_all(inside(&path, Path::new(dir)))?;
        }
        fs::create_dir_all(inside(&path, state))?;
        let workload = Path::new(BIN).join("workload");
        fs::copy(&workload, inside(&path, &workload))?;
        mount_bind(&path, &path)?;
        let root = Self { path };
        mount_change(&root.path, MountPropagationFlags::PRIVATE)?;
        Ok(root)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        let _ = fs::remove_dir_all(&self.path);
    }
}
