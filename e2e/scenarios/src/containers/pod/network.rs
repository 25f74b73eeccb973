//! The network of a pod: a namespace, and a pair of interfaces between it and the node.

use std::net::Ipv4Addr;

use anyhow::Result;

use super::super::run;

/// A named namespace, removed when dropped.
pub(super) struct Network {
    name: String,
    number: u8,
}

impl Network {
    pub(super) fn new(number: u32) -> Result<Self> {
        let number = u8::try_from(number)?;
        let network = Self {
            name: format!("rocferry-pod-{number}"),
            number,
        };
        let (name, outside) = (&network.name, format!("pod{number}"));
        for words in [
            format!("netns add {name}"),
            format!("link add {outside} type veth peer eth0 netns {name}"),
            format!("address add 10.97.{number}.1/24 dev {outside}"),
            format!("link set {outside} up"),
            format!("-n {name} address add 10.97.{number}.2/24 dev eth0"),
            format!("-n {name} link set eth0 up"),
            format!("-n {name} link set lo up"),
            format!("-n {name} route add default via 10.97.{number}.1"),
        ] {
            let words: Vec<&str> = ["ip"].into_iter().chain(words.split(' ')).collect();
            run(&words)?.ok()?;
        }
        Ok(network)
    }

    /// Path of the namespace.
    pub(super) fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    pub(super) const fn pod(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 97, self.number, 2)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = run(&["ip", "netns", "del", &self.name]);
    }
}
