//! A container's namespaces, without a container runtime: own mount, pid and network namespaces (F4).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::round_trip::{OTHER, SMALL};
use crate::case::{BIN, Case, Lab, On};

pub(crate) const CASES: &[Case] = &[Case {
    name: "namespaces/mount_pid_and_network",
    on: On::Newest,
    limit_s: 90,
    run: mount_pid_and_network,
}];

/// Run in the new namespaces with the root in `$1` and the folder of the state files in `$2`. The old root
/// is stacked on the new one and then taken away, so that nothing of it is left in the namespace.
const ENTER: &str = r#"set -e
root=$1 state=$2; shift 2
mount --bind "$root" "$root"
for dir in /usr /dev /sys "$state"; do mount --bind "$dir" "$root$dir"; done
mount -t proc proc "$root/proc"
cd "$root"; pivot_root . .; umount -l .; cd /
exec setsid "$@""#;

fn mount_pid_and_network(lab: &mut Lab) -> Result<()> {
    lab.sim.load("preset=gfx90a-2")?;
    let root = Root::new(&lab.dir)?;
    let (path, state) = (root.path.to_str().context("path")?, root.state.clone());
    let wrapper = [
        "unshare",
        "--mount",
        "--pid",
        "--net",
        "--fork",
        "--propagation",
        "private",
        "sh",
        "-c",
        ENTER,
        "sh",
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
    let outside: Vec<_> = ["/usr", "/dev", "/sys", &state].map(str::to_owned).into();
    let dumped: Vec<_> = outside
        .iter()
        .map(|dir| format!("mnt[{dir}]:{dir}"))
        .collect();
    let restored: Vec<_> = dumped.clone();
    let dump = lab.dump_with(&workload, &externals(&dumped))?;
    lab.sim.load(&format!("preset=gfx90a-2 {OTHER}"))?;
    let mut args = externals(&restored);
    args.extend(["--root", path]);
    lab.restore_with(&mut workload, &dump, &args)?;
    workload.prove()?;
    workload.advances()?;
    lab.no_stray_access()?;
    workload.finish()
}

fn externals(mounts: &[String]) -> Vec<&str> {
    mounts
        .iter()
        .flat_map(|mount| ["--external", mount])
        .collect()
}

/// A root file system: the machine's programs and devices, an own /proc. A mount of its own, since CRIU
/// wants one.
struct Root {
    path: PathBuf,
    /// The case's folder, at the same path inside.
    state: String,
}

impl Root {
    fn new(dir: &Path) -> Result<Self> {
        let state = dir.to_str().context("path")?.to_owned();
        // Not below the folder of the case, which is mounted inside.
        let path = dir.with_extension("root");
        let _ = fs::remove_dir_all(&path);
        for inside in ["usr", "dev", "sys", "proc", state.trim_start_matches('/')] {
            fs::create_dir_all(path.join(inside))?;
        }
        for link in ["bin", "sbin", "lib", "lib64"] {
            symlink(format!("usr/{link}"), path.join(link))?;
        }
        let bin = path.join(BIN.trim_start_matches('/'));
        fs::create_dir_all(&bin)?;
        fs::copy(format!("{BIN}/workload"), bin.join("workload"))?;
        let bound = Command::new("mount")
            .arg("--bind")
            .args([&path, &path])
            .status()?;
        ensure!(bound.success(), "cannot bind the root");
        let root = Self { path, state };
        let private = Command::new("mount")
            .arg("--make-private")
            .arg(&root.path)
            .status()?;
        ensure!(private.success(), "cannot make the root private");
        Ok(root)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
        let _ = fs::remove_dir_all(&self.path);
    }
}
