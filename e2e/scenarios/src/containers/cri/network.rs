//! The network of pods: CNI's own bridge.

use std::fs;

use super::super::run;

/// Each pod has an address of it; the node is 10.98.0.1.
pub(super) const CONFIG: &str = r#"{"cniVersion":"1.0.0","name":"case","plugins":[{"type":"bridge","bridge":"case-pods","isGateway":true,
"ipMasq":false,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.98.0.0/24"}]]}}]}"#;

/// The bridge, and the addresses that were given; gone when dropped.
pub(super) struct Bridge;

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = run(&["ip", "link", "del", "case-pods"]);
        let _ = fs::remove_dir_all("/var/lib/cni");
    }
}
