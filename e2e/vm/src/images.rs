//! The images that machines are made of, each an entry of the cache, built when first asked for.
//!
//! | entry | contents |
//! | --- | --- |
//! | `kernel` | `vmlinuz`, `modules.sqfs`, `version`, and `tree`: headers and compiler, to build modules and static programs |
//! | `SUITE-userland` | `root.sqfs` |
//! | `qemu` | `tree`: QEMU of the kernel's suite, run through its own dynamic loader |
//! | `boot` | `initramfs`: busybox, a few modules, this crate's guest programs |
//! | `bookworm-sysroot` | `tree`: what the plugin is linked against where the host's C library is too new |

mod boot;
mod bootstrap;

use crate::cache::Cache;
use crate::fingerprint::Fingerprint;
use crate::leash;
use crate::packages::{self, Userland};
use crate::progress::Progress;
use crate::{host, rundir};
use anyhow::{Context, Result, bail};
use bootstrap::{Bootstrap, into_squashfs, into_tree};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Entries that nobody asked for in this time are removed.
const KEEP_UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Everything that is needed to make machines: the host's tools checked, the cache opened.
#[derive(Debug, Clone)]
pub struct Lab {
    cache: Cache,
}

/// The kernel image with the tree to build for it.
#[derive(Debug, Clone)]
pub struct Kernel {
    dir: PathBuf,
    version: String,
}

impl Lab {
    /// Opens the cache and makes sure that the host has the tools (root: installs them).
    ///
    /// # Errors
    /// Names the command to run when packages are missing and we are not root.
    pub fn open() -> Result<Self> {
        host::require_packages()?;
        let lab = Self {
            cache: Cache::open()?,
        };
        rundir::sweep(lab.cache.root());
        for gone in lab.cache.prune(KEEP_UNUSED)? {
            eprintln!("[images] removed {gone}");
        }
        Ok(lab)
    }

    /// The cache of images.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Builds what is missing for machines with these userlands, two things at a time. Without it each
    /// thing is built when it is first needed.
    ///
    /// # Errors
    /// The first failure, with the last lines of the failed command.
    pub fn prepare(&self, userlands: &[Userland]) -> Result<()> {
        std::thread::scope(|scope| {
            // The kernel takes about as long as QEMU and one userland together.
            let kernel = scope.spawn(|| self.initramfs().map(drop));
            let rest = self.qemu().map(drop).and_then(|()| {
                userlands
                    .iter()
                    .try_for_each(|u| self.userland(*u).map(drop))
            });
            match kernel.join() {
                Ok(done) => done.and(rest),
                Err(_) => bail!("The thread that built the kernel image panicked"),
            }
        })
    }

    /// The kernel with its build tree.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn kernel(&self) -> Result<Kernel> {
        let wanted = Bootstrap {
            suite: packages::KERNEL_SUITE,
            variant: "minbase",
            packages: packages::KERNEL.to_vec(),
            // The machines have an initramfs of their own; Debian's takes half a minute to make.
            hook: Some(
                "mkdir -p \"$1/etc/initramfs-tools\"; echo update_initramfs=no \
                 > \"$1/etc/initramfs-tools/update-initramfs.conf\"",
            ),
        };
        let key = wanted.part_of(Fingerprint::new("kernel 1"));
        let key = packages::UNUSED_MODULES
            .iter()
            .fold(key, Fingerprint::part)
            .key();
        let dir = self.cache.entry("kernel", &key, |dir, progress| {
            host::require_space(dir)?;
            let tree = dir.join("tree");
            into_tree(&wanted, &tree, dir, progress)?;
            progress.step("packing its modules", || pack_kernel(dir, progress))
        })?;
        let version = fs::read_to_string(dir.join("version"))?;
        Ok(Kernel { dir, version })
    }

    /// Root file system image of a userland (squashfs).
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn userland(&self, userland: Userland) -> Result<PathBuf> {
        let wanted = Bootstrap {
            suite: userland.suite(),
            variant: "minbase",
            packages: userland.packages(),
            hook: None,
        };
        let key = wanted.part_of(Fingerprint::new("userland 1")).key();
        let name = format!("{userland}-userland");
        let dir = self.cache.entry(&name, &key, |dir, progress| {
            host::require_space(dir)?;
            into_squashfs(&wanted, &dir.join("root.sqfs"), dir, progress)
        })?;
        Ok(dir.join("root.sqfs"))
    }

    /// The tree that holds QEMU.
    pub(crate) fn qemu(&self) -> Result<PathBuf> {
        self.extracted("qemu", packages::KERNEL_SUITE, &packages::QEMU)
    }

    /// The tree of the oldest userland's C library for linking.
    pub(crate) fn sysroot(&self) -> Result<PathBuf> {
        self.extracted(
            "bookworm-sysroot",
            packages::SYSROOT_SUITE,
            &packages::SYSROOT,
        )
    }

    fn extracted(&self, name: &str, suite: &'static str, list: &[&'static str]) -> Result<PathBuf> {
        extracted(&self.cache, name, suite, list)
    }

    /// The initramfs with the guest side of this crate.
    pub(crate) fn initramfs(&self) -> Result<PathBuf> {
        let kernel = self.kernel()?;
        let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest");
        let files = ["agent.c", "init", "initramfs-init"].map(PathBuf::from);
        let key = Fingerprint::new("boot 1")
            .part(kernel.key())
            .files(&guest, &files)?
            .key();
        let agent = self.c_program_from(&guest, "agent", &["agent.c"])?;
        let dir = self.cache.entry("boot", &key, |dir, _| {
            boot::write_initramfs(&dir.join("initramfs"), &guest, &agent, &kernel)
        })?;
        Ok(dir.join("initramfs"))
    }
}

/// The tree of packages and what they need, unpacked but not installed.
pub(crate) fn extracted(
    cache: &Cache,
    name: &str,
    suite: &'static str,
    list: &[&'static str],
) -> Result<PathBuf> {
    let wanted = Bootstrap {
        suite,
        variant: "extract",
        packages: list.to_vec(),
        hook: None,
    };
    let key = wanted.part_of(Fingerprint::new("extracted 1")).key();
    let dir = cache.entry(name, &key, |dir, progress| {
        host::require_packages()?;
        host::require_space(dir)?;
        into_tree(&wanted, &dir.join("tree"), dir, progress)
    })?;
    Ok(dir.join("tree"))
}

impl Kernel {
    /// Its release, as `uname -r` prints it.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The bootable image.
    #[must_use]
    pub fn image(&self) -> PathBuf {
        self.dir.join("vmlinuz")
    }

    /// The image with its modules (squashfs).
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.dir.join("modules.sqfs")
    }

    /// The tree with headers, compiler and `usr/include` of its suite.
    #[must_use]
    pub fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    /// What identifies it in keys of things made with it.
    pub(crate) fn key(&self) -> String {
        self.dir
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// A shell script to run inside the tree as root, with `binds` (host folder, folder inside) bound
    /// there. The mounts exist for the command alone.
    pub(crate) fn inside(&self, binds: &[(&Path, &str)], script: &str) -> Command {
        inside(&self.tree(), binds, script)
    }
}

fn inside(tree: &Path, binds: &[(&Path, &str)], script: &str) -> Command {
    let mut outer = String::from(
        "set -e; T=$1; S=$2; shift 2\n\
         mount --rbind /dev \"$T/dev\"; mount --rbind /proc \"$T/proc\"; mount -t tmpfs tmpfs \"$T/tmp\"\n",
    );
    for _ in binds {
        outer.push_str("mount --bind \"$1\" \"$T$2\"; shift 2\n");
    }
    outer.push_str("exec chroot \"$T\" /bin/sh -ec \"$S\"");
    let mut command = leash::contained("/bin/sh", !host::is_root());
    command.args(["-c", &outer, "inside"]).arg(tree).arg(script);
    for (from, to) in binds {
        command.arg(from).arg(to);
    }
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8");
    command
}

/// Takes kernel and modules out of the tree, so that it keeps what builds need.
fn pack_kernel(dir: &Path, progress: &Progress) -> Result<()> {
    let tree = dir.join("tree");
    let modules = tree.join("usr/lib/modules");
    let mut versions = fs::read_dir(&modules)?.collect::<Result<Vec<_>, _>>()?;
    let (Some(version), true) = (versions.pop(), versions.is_empty()) else {
        bail!("Expected one kernel in {}", modules.display());
    };
    let version = version.file_name().to_string_lossy().into_owned();
    fs::write(dir.join("version"), &version)?;
    fs::copy(
        tree.join(format!("boot/vmlinuz-{version}")),
        dir.join("vmlinuz"),
    )
    .context("No kernel in the tree")?;

    let packed = dir.join("modules");
    fs::create_dir(&packed)?;
    let packed_version = packed.join(&version);
    fs::create_dir(&packed_version)?;
    for entry in fs::read_dir(modules.join(&version))? {
        let entry = entry?;
        let name = entry.file_name();
        // `build` and `source` lead to the headers, which stay.
        if name != "build" && name != "source" {
            fs::rename(entry.path(), packed_version.join(&name))?;
        }
    }
    for unused in packages::UNUSED_MODULES {
        let path = packed_version.join("kernel").join(unused);
        if path.exists() {
            fs::remove_dir_all(path)?;
        }
    }
    for sub in ["build", "out"] {
        fs::create_dir_all(tree.join(sub))?;
    }
    // Stored unpacked: a machine would unpack them slowly each time it loads one.
    let script = format!(
        "find /build/{version} -name '*.ko.xz' -print0 | xargs -0 -P2 -n64 xz -d\n\
         mkdir -p /tmp/b/lib; ln -s /build /tmp/b/lib/modules; depmod -b /tmp/b {version}"
    );
    progress.run(
        "unpacking modules",
        inside(&tree, &[(&packed, "/build")], &script),
    )?;
    let mut squash = leash::leashed("mksquashfs");
    squash.arg(&packed).arg(dir.join("modules.sqfs"));
    squash.args(["-comp", "zstd", "-Xcompression-level", "3", "-all-root"]);
    squash.args(["-noappend", "-no-progress", "-quiet"]);
    progress.run("packing modules", squash)?;
    for name in boot::MODULES {
        if let Some(found) = boot::find_module(&packed_version, name)? {
            fs::create_dir_all(dir.join("early"))?;
            fs::copy(found, dir.join("early").join(format!("{name}.ko")))?;
        }
    }
    fs::remove_dir_all(&packed)?;
    let _ = fs::remove_dir_all(tree.join("boot"));
    Ok(())
}
