//! A network between machines: a bridge in a network namespace, one tap per machine.
//!
//! The namespace has no name. A process that sleeps holds it and is killed with us, so nothing stays
//! behind, however we end.

use crate::{host, leash};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A network 10.77.0.0/24. The host side of the bridge is 10.77.0.1, machine n is 10.77.0.(10 + n).
/// Clones are the same network; it is gone with the last of them.
#[derive(Debug, Clone)]
pub struct Net(Arc<Holder>);

#[derive(Debug)]
struct Holder {
    child: Mutex<Child>,
    pid: u32,
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Net {
    /// Makes the namespace and the bridge.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub fn new() -> Result<Self> {
        const SCRIPT: &str = "ip link set lo up\n\
            ip link add br0 type bridge forward_delay 0\n\
            ip addr add 10.77.0.1/24 dev br0\n\
            ip link set br0 up\n\
            echo ready\n\
            exec sleep infinity";
        let mut command = leash::leashed("unshare");
        if !host::is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--", "/bin/sh", "-ec", SCRIPT]);
        command.env("PATH", search_path());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = leash::spawn(command)?;
        let out = child.stdout.take().context("No pipe")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let pid = child.id();
        let net = Self(Arc::new(Holder {
            child: Mutex::new(child),
            pid,
        }));
        if line.trim() != "ready" {
            bail!("Cannot make a network namespace with a bridge");
        }
        Ok(net)
    }

    /// A command that runs on the host's side of the network (10.77.0.1), killed with us.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = leash::leashed("nsenter");
        self.enter(&mut command);
        command.arg(program);
        command
    }

    fn enter(&self, command: &mut Command) {
        command
            .arg("--target")
            .arg(self.0.pid.to_string())
            .arg("--net");
        if !host::is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--").env("PATH", search_path());
    }

    /// Makes the tap of machine `n` unless it is there, and returns its name.
    pub(crate) fn tap(&self, n: u8) -> Result<String> {
        let tap = format!("tap{n}");
        let script = format!(
            "[ -e /proc/self/net/dev ] && grep -q '^ *{tap}:' /proc/self/net/dev && exit 0\n\
             ip tuntap add {tap} mode tap && ip link set {tap} master br0 up"
        );
        let out = self
            .command("/bin/sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .output()?;
        if !out.status.success() {
            bail!(
                "Cannot make {tap}: {}",
                String::from_utf8_lossy(&out.stderr)
            );
        }
        Ok(tap)
    }

    /// Address of machine `n`.
    #[must_use]
    pub fn address(n: u8) -> String {
        format!("10.77.0.{}", 10 + u16::from(n))
    }
}

/// `ip` is not in an ordinary user's path on Debian.
fn search_path() -> String {
    format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    )
}
