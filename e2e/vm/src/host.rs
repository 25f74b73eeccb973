//! What the host needs: tools from a few Debian packages.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Any of these files shows that the package is there; looking at files works on every distribution.
struct Need {
    package: &'static str,
    files: &'static [&'static str],
}

const NEEDS: [Need; 10] = [
    Need {
        package: "mmdebstrap",
        files: &["/usr/bin/mmdebstrap"],
    },
    Need {
        package: "debian-archive-keyring",
        files: &[
            "/usr/share/keyrings/debian-archive-keyring.gpg",
            "/usr/share/keyrings/debian-archive-keyring.pgp",
        ],
    },
    Need {
        package: "squashfs-tools",
        files: &["/usr/bin/mksquashfs"],
    },
    Need {
        package: "util-linux",
        files: &["/usr/bin/setpriv", "/bin/setpriv"],
    },
    Need {
        package: "iproute2",
        files: &["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"],
    },
    Need {
        package: "e2fsprogs",
        files: &[
            "/usr/sbin/mkfs.ext4",
            "/sbin/mkfs.ext4",
            "/usr/bin/mkfs.ext4",
        ],
    },
    Need {
        package: "gcc",
        files: &["/usr/bin/cc"],
    },
    Need {
        package: "libc6-dev",
        files: &["/usr/include/stdio.h"],
    },
    Need {
        package: "binutils",
        files: &["/usr/bin/readelf"],
    },
    Need {
        package: "tar",
        files: &["/usr/bin/tar", "/bin/tar"],
    },
];

/// True when we may install packages, make device nodes and change the root of a process.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// What measurements of the store need besides.
const ZSTD: Need = Need {
    package: "zstd",
    files: &["/usr/bin/zstd"],
};

fn missing(needs: &[Need]) -> Vec<&'static str> {
    needs
        .iter()
        .filter(|need| !need.files.iter().any(|f| Path::new(f).exists()))
        .map(|need| need.package)
        .collect()
}

/// Makes sure that every needed package is there: installs it when root, else fails with the command
/// that does.
pub(crate) fn require_packages() -> Result<()> {
    require(&NEEDS)
}

/// Makes sure that there is the program `zstd`: installs its package when root, else fails with the command
/// that does.
///
/// # Errors
/// When it is missing and cannot be installed.
pub fn require_zstd() -> Result<()> {
    require(&[ZSTD])
}

fn require(needs: &[Need]) -> Result<()> {
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    let command = format!(
        "apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    );
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        bail!("Packages are missing on this machine; run as root: {command}");
    }
    eprintln!("[host] installing {}", packages.join(" "));
    if !has_package_lists() {
        apt(&["update"])?;
    }
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(&packages);
    if apt(&install).is_err() {
        // The lists may name versions that the mirror no longer has.
        apt(&["update"])?;
        apt(&install).with_context(|| format!("Run by hand: {command}"))?;
    }
    let still = missing(needs);
    if !still.is_empty() {
        bail!("Still missing after installation: {}", still.join(" "));
    }
    Ok(())
}

fn has_package_lists() -> bool {
    std::fs::read_dir("/var/lib/apt/lists")
        .into_iter()
        .flatten()
        .flatten()
        .any(|e| e.file_name().to_string_lossy().contains("_Packages"))
}

fn apt(args: &[&str]) -> Result<()> {
    // Its output belongs to progress, not to standard output, which callers may parse.
    let status = Command::new("apt-get")
        .arg("-q")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(std::process::Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .context("Cannot start apt-get")?;
    if !status.success() {
        bail!("apt-get {} failed ({status})", args.join(" "));
    }
    Ok(())
}

/// Free bytes are not checked by anybody else before a build of about 1.5 GiB.
pub(crate) fn require_space(dir: &Path) -> Result<()> {
    const NEEDED_MIB: u64 = 3072;
    let out = Command::new("df")
        .args(["--output=avail", "-m"])
        .arg(dir)
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let free: Option<u64> = text.lines().nth(1).and_then(|l| l.trim().parse().ok());
    if free.is_some_and(|mib| mib < NEEDED_MIB) {
        bail!(
            "{} has {} MiB free, images need {NEEDED_MIB}; set ROCFERRY_CACHE to a larger file system",
            dir.display(),
            free.unwrap_or_default()
        );
    }
    Ok(())
}
