//! Which Debian packages make up each image. The one place to add a package to a userland.

use std::fmt;
use std::str::FromStr;

/// A Debian release as the root file system of a machine. The kernel is trixie's 6.12 under each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Userland {
    /// Debian 12: CRIU 3.17.1.
    Bookworm,
    /// Debian 13: CRIU 4.1.1, and rocminfo with ROCm's runtime 6.1.
    Trixie,
    /// Debian unstable: CRIU 4.2.1, rocminfo with ROCm's runtime 6.4, the container engines, and systemd.
    Sid,
}

impl Userland {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::Bookworm, Self::Trixie, Self::Sid];

    /// Name of the Debian suite.
    #[must_use]
    pub fn suite(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::Sid => "sid",
        }
    }

    /// Version that `criu --version` reports there.
    #[must_use]
    pub fn criu(self) -> &'static str {
        match self {
            Self::Bookworm => "3.17.1",
            Self::Trixie => "4.1.1",
            Self::Sid => "4.2.1",
        }
    }

    /// The packages on top of mmdebstrap's minbase variant.
    #[must_use]
    pub(crate) fn packages(self) -> Vec<&'static str> {
        let mut all = COMMON.to_vec();
        match self {
            Self::Bookworm => {}
            Self::Trixie => all.extend(ROCM),
            Self::Sid => all.extend([ROCM.as_slice(), &CRUN, &CONTAINERS, &SYSTEMD].concat()),
        }
        all
    }
}

impl fmt::Display for Userland {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suite())
    }
}

impl FromStr for Userland {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|u| u.suite() == name)
            .ok_or_else(|| format!("No userland {name:?}: bookworm, trixie or sid"))
    }
}

/// In every userland. CRIU calls iptables and nft when it handles network namespaces, and ip for links.
const COMMON: [&str; 13] = [
    "busybox-static",
    "coreutils",
    "criu",
    "e2fsprogs",
    "iproute2",
    "iptables",
    "iputils-ping",
    "kmod",
    "mount",
    "nftables",
    "procps",
    "strace",
    "util-linux",
];

/// From trixie on: ROCm's runtime, with libdrm and libdrm-amdgpu, and the program that lists what it sees.
/// No test uses the older one of Debian 12.
const ROCM: [&str; 2] = ["libhsa-runtime64-1", "rocminfo"];

/// Container engines and their runtimes, in unstable alone: no other suite has containerd 2.1. Podman asks for
/// netavark even where a container gets no network. containerd gives pods their network by the plugins of CNI. Whoever talks
/// to servers wants to know whom to trust.
const CONTAINERS: [&str; 7] = [
    "ca-certificates",
    "conmon",
    "containerd",
    "containernetworking-plugins",
    "netavark",
    "podman",
    "runc",
];

/// crun loads libcriu only when it checkpoints.
const CRUN: [&str; 2] = ["crun", "libcriu2"];

/// Process 1 of machines that are to have it ([`crate::Vm::systemd`]), and the bus on which runtimes ask it for cgroups.
const SYSTEMD: [&str; 2] = ["dbus", "systemd"];

/// The kernel chroot: kernel, headers, its compiler, and what prepares modules for the image.
pub(crate) const KERNEL: [&str; 8] = [
    "busybox-static",
    "gcc",
    "kmod",
    "libc6-dev",
    "linux-headers-amd64",
    "linux-image-amd64",
    "make",
    "xz-utils",
];

/// Suite of kernel and QEMU.
pub(crate) const KERNEL_SUITE: &str = "trixie";

/// QEMU, unpacked beside the host's own programs.
pub(crate) const QEMU: [&str; 1] = ["qemu-system-x86"];

/// The registry that stores are tested with, unpacked as well.
pub(crate) const REGISTRY: [&str; 1] = ["docker-registry"];

/// What a program that has to run on Debian 12 is linked against.
pub(crate) const SYSROOT: [&str; 3] = ["libc6-dev", "libgcc-12-dev", "libgcc-s1"];

/// Suite of the sysroot: the oldest userland.
pub(crate) const SYSROOT_SUITE: &str = "bookworm";

/// Kernel modules that no test machine uses: left out of its image, which makes it a third as large.
/// Debian's own amdgpu is among them: the simulated one takes its name.
pub(crate) const UNUSED_MODULES: [&str; 41] = [
    "sound",
    "drivers/accel",
    "drivers/ata",
    "drivers/bluetooth",
    "drivers/comedi",
    "drivers/firewire",
    "drivers/gpu/drm/amd",
    "drivers/gpu/drm/ast",
    "drivers/gpu/drm/gma500",
    "drivers/gpu/drm/hyperv",
    "drivers/gpu/drm/i2c",
    "drivers/gpu/drm/i915",
    "drivers/gpu/drm/mgag200",
    "drivers/gpu/drm/nouveau",
    "drivers/gpu/drm/qxl",
    "drivers/gpu/drm/radeon",
    "drivers/gpu/drm/vboxvideo",
    "drivers/gpu/drm/vmwgfx",
    "drivers/gpu/drm/xe",
    "drivers/hid",
    "drivers/hwmon",
    "drivers/iio",
    "drivers/infiniband/hw",
    "drivers/input",
    "drivers/isdn",
    "drivers/media",
    "drivers/mmc",
    "drivers/mtd",
    "drivers/net/ethernet",
    "drivers/net/usb",
    "drivers/net/wireless",
    "drivers/net/wwan",
    "drivers/platform",
    "drivers/power",
    "drivers/scsi",
    "drivers/staging",
    "drivers/thunderbolt",
    "drivers/usb",
    "net/bluetooth",
    "net/mac80211",
    "net/wireless",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for u in Userland::ALL {
            assert_eq!(u.suite().parse::<Userland>().unwrap(), u);
        }
        "jessie".parse::<Userland>().unwrap_err();
    }
}
