//! QEMU's command line.

use crate::leash;
use crate::net::Net;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything that goes into it.
pub(crate) struct Machine<'a> {
    /// Tree with QEMU and its libraries.
    pub(crate) qemu: &'a Path,
    pub(crate) kernel: PathBuf,
    pub(crate) initramfs: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) modules: PathBuf,
    pub(crate) share: &'a Path,
    pub(crate) data: Option<PathBuf>,
    pub(crate) net: Option<(&'a Net, u8)>,
    pub(crate) memory_mib: u32,
    pub(crate) cpus: u32,
    pub(crate) append: String,
    pub(crate) console: &'a Path,
    /// The console is our terminal; else standard input and output carry the agent's frames.
    pub(crate) interactive: bool,
}

/// Commas separate options in QEMU's arguments; doubled they stand for themselves.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

impl Machine<'_> {
    pub(crate) fn command(&self) -> Result<Command> {
        let lib = self.qemu.join("usr/lib/x86_64-linux-gnu");
        let libs = ["", "ceph", "pulseaudio"]
            .map(|sub| lib.join(sub).display().to_string())
            .join(":");
        // Its own loader and libraries: QEMU is newer than the host may be.
        let loader = self.qemu.join("usr/lib64/ld-linux-x86-64.so.2");
        let mut c = match self.net {
            Some((net, _)) => net.command(loader),
            None => leash::leashed(loader),
        };
        c.args(["--library-path", &libs])
            .arg(self.qemu.join("usr/bin/qemu-system-x86_64"));
        for dir in ["usr/share/qemu", "usr/share/seabios"] {
            c.arg("-L").arg(self.qemu.join(dir));
        }
        c.args(["-machine", "q35", "-accel", "tcg,thread=multi"]);
        // Without these three the kernel clears pages and walks page tables in ways that are fast
        // under TCG.
        c.args(["-cpu", "max,la57=off,erms=off,fsrm=off"]);
        c.args([
            "-smp",
            &self.cpus.to_string(),
            "-m",
            &self.memory_mib.to_string(),
        ]);
        c.args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-vga",
            "none",
        ]);
        c.arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initramfs);
        c.args(["-device", "virtio-rng-pci"]);
        self.disk(&mut c, 0, &self.root, true);
        self.disk(&mut c, 1, &self.modules, true);
        if let Some(data) = &self.data {
            self.disk(&mut c, 2, data, false);
        }
        c.arg("-fsdev").arg(format!(
            "local,id=host,path={},security_model=none,multidevs=remap",
            quoted(self.share)
        ));
        c.args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]);
        if let Some((net, n)) = self.net {
            let tap = net.tap(n)?;
            c.arg("-netdev")
                .arg(format!("tap,id=net,ifname={tap},script=no,downscript=no"));
            c.arg("-device").arg(format!(
                "virtio-net-pci,netdev=net,mac=52:54:00:77:00:{n:02x}"
            ));
        }
        let console = quoted(self.console);
        if self.interactive {
            c.arg("-chardev")
                .arg(format!("stdio,id=console,signal=off,logfile={console}"));
        } else {
            c.arg("-chardev")
                .arg(format!("file,id=console,path={console}"));
            c.args([
                "-chardev",
                "stdio,id=agent,signal=off",
                "-device",
                "virtio-serial-pci",
            ]);
            c.args(["-device", "virtserialport,chardev=agent,name=agent"]);
        }
        c.args(["-serial", "chardev:console"]);
        // A kernel oops ends the machine, as a test must not go on after one.
        c.arg("-append").arg(format!(
            "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off no_timer_check net.ifnames=0 {}",
            self.append
        ));
        Ok(c)
    }

    fn disk(&self, c: &mut Command, n: u32, file: &Path, readonly: bool) {
        let mode = if readonly {
            "readonly=on"
        } else {
            "discard=unmap"
        };
        c.arg("-drive").arg(format!(
            "file={},if=none,id=d{n},format=raw,cache=unsafe,{mode}",
            quoted(file)
        ));
        c.arg("-device").arg(format!("virtio-blk-pci,drive=d{n}"));
    }
}
