//! The rules in the pod's network namespace.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Name of the table.
pub(super) const TABLE: &str = "rocferry_probes";

/// Rules that send the node's connections to probe ports to our listeners, and let nobody begin another one.
/// `listeners`: probe port and the port that is listened on.
pub(super) fn rules(listeners: &BTreeMap<u16, u16>, node: &[IpAddr]) -> String {
    let mut redirects = String::new();
    for (probed, listening) in listeners {
        for address in node {
            let family = match address {
                IpAddr::V4(_) => "ip",
                IpAddr::V6(_) => "ip6",
            };
            redirects.push_str(&format!(
                "    {family} saddr {address} tcp dport {probed} redirect to :{listening}\n"
            ));
        }
    }
    // What was redirected has a destination of ours by now. Its own connections a container makes over lo; it is frozen.
    let ours: String = listeners
        .values()
        .map(|port| format!("    ct status dnat tcp dport {port} accept\n"))
        .collect();
    format!(
        "table inet {TABLE} {{\n  chain probes {{\n    type nat hook prerouting priority dstnat; policy accept;\n{redirects}  }}\n  \
         chain others {{\n    type filter hook input priority filter; policy accept;\n{ours}    \
         meta l4proto tcp ct state new drop\n  }}\n}}\n"
    )
}

/// Removes them; without them it is an error.
pub(super) fn removal() -> String {
    format!("delete table inet {TABLE}\n")
}

/// Makes sure that there are none, whatever was there.
pub(super) fn none() -> String {
    format!("table inet {TABLE}\n{}", removal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_sent_to_each_listener() {
        let listeners = [(8080, 40001), (9000, 40002)].into();
        let node = ["10.1.0.1", "fd00::1"].map(|address| address.parse().expect("address"));
        let text = rules(&listeners, &node);
        for line in [
            "ip saddr 10.1.0.1 tcp dport 8080 redirect to :40001",
            "ip6 saddr fd00::1 tcp dport 9000 redirect to :40002",
            "ct status dnat tcp dport 40001 accept",
            "meta l4proto tcp ct state new drop",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(text.matches("redirect").count(), 4);
    }
}
