//! The pod's network namespace: what has to be done from inside is done by a thread that enters it.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::ProbeError;

/// A network namespace, and the process that it was found by.
#[derive(Debug)]
pub(super) struct Namespace {
    pid: u32,
    file: File,
}

impl Namespace {
    /// That of a process, which must not be this one's own.
    pub(super) fn of(pid: u32) -> Result<Self, ProbeError> {
        use std::os::unix::fs::MetadataExt;
        let open = |path: String| {
            let file = File::open(path)?;
            let meta = file.metadata()?;
            Ok::<_, io::Error>((file, (meta.dev(), meta.ino())))
        };
        let failed = |source| ProbeError::Namespace { pid, source };
        let (file, pods) = open(format!("/proc/{pid}/ns/net")).map_err(failed)?;
        let (_, own) = open("/proc/self/ns/net".to_owned()).map_err(failed)?;
        if pods == own {
            return Err(ProbeError::HostNetwork { pid });
        }
        Ok(Self { pid, file })
    }

    /// Does something inside.
    fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, ProbeError> + Send,
    ) -> Result<T, ProbeError> {
        let failed = |source| ProbeError::Namespace {
            pid: self.pid,
            source,
        };
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.file.as_fd(), kind)
                    .map_err(|errno| failed(errno.into()))?;
                work()
            });
            thread
                .join()
                .unwrap_or_else(|_| Err(failed(io::Error::other("the thread has panicked"))))
        })
    }

    /// So many sockets that listen inside.
    pub(super) fn listeners(&self, count: usize) -> Result<Vec<TcpListener>, ProbeError> {
        self.inside(|| {
            let listen = || {
                // Both families, where there are both.
                let any = |address: IpAddr| TcpListener::bind(SocketAddr::new(address, 0));
                let listener = any(Ipv6Addr::UNSPECIFIED.into())
                    .or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            };
            let listeners = (0..count).map(|_| listen()).collect::<io::Result<_>>();
            listeners.map_err(|source| ProbeError::Listen {
                pid: self.pid,
                source,
            })
        })
    }

    /// Hands rules to `nft` inside.
    pub(super) fn rules(&self, rules: &str) -> Result<(), ProbeError> {
        let failed = |reason: String| ProbeError::Rules { reason };
        self.inside(|| {
            let mut nft = Command::new("nft")
                .args(["-f", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| failed(format!("it cannot be run: {error}")))?;
            if let Some(mut input) = nft.stdin.take() {
                // If it does not read, it says why.
                let _ = input.write_all(rules.as_bytes());
            }
            let output = nft.wait_with_output();
            let output = output.map_err(|error| failed(error.to_string()))?;
            if output.status.success() {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&output.stderr);
            Err(failed(said.lines().next().unwrap_or_default().to_owned()))
        })
    }

    /// Addresses of the default routes: where the node is, as a bridge and most other networks of pods have it.
    pub(super) fn gateways(&self) -> Result<Vec<IpAddr>, ProbeError> {
        let file = format!("/proc/{}/net/route", self.pid);
        let text = std::fs::read_to_string(file).map_err(|source| ProbeError::Namespace {
            pid: self.pid,
            source,
        })?;
        Ok(text
            .lines()
            .skip(1)
            .filter_map(gateway)
            .map(IpAddr::V4)
            .collect())
    }
}

/// The gateway of a line of `/proc/net/route`, if that is the default route. Numbers are in this machine's order of
/// bytes.
fn gateway(line: &str) -> Option<Ipv4Addr> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (destination, gateway) = (words.next()?, words.next()?);
    let gateway = u32::from_str_radix(gateway, 16).ok()?;
    (destination == "00000000" && gateway != 0).then(|| Ipv4Addr::from(gateway.to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_have_gateways() {
        let line = "eth0\t00000000\t010A4D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0";
        assert_eq!(gateway(line), Some(Ipv4Addr::new(10, 77, 10, 1)));
        assert_eq!(gateway("eth0\t000A4D0A\t00000000\t0001"), None);
        assert_eq!(gateway("eth0"), None);
    }
}
