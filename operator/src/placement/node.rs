//! What is known of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use rocferry_crds::v1alpha1::Feature;
use rocferry_topology::{ActualGpuId, CompactTopology};

/// A node, from its `GpuNode` and its Node.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its agent works, and the node does.
    pub ready: bool,
    /// New pods may go there: it is neither cordoned nor being emptied.
    pub schedulable: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its GPUs. `None`: not published, or not understood.
    pub topology: Option<CompactTopology>,
    /// GPUs that containers have.
    pub in_use: Vec<ActualGpuId>,
    /// What it can do.
    pub features: BTreeSet<Feature>,
    /// Features of its CPU.
    pub cpu_features: BTreeSet<String>,
    /// Its CRIU.
    pub criu: Option<Version>,
    /// CheckpointStores that its agent was configured for.
    pub stores: BTreeSet<String>,
    /// The kubelet's limit, seconds.
    pub limit_seconds: Option<u64>,
    /// Bytes that a restore brings back in a second there.
    pub bytes_per_second: Option<u64>,
    /// Room for the checkpoint on its way.
    pub spool_bytes: Option<u64>,
    /// Checkpoints whose data is there, with its bytes.
    pub cached: BTreeMap<String, u64>,
}

/// A version: numbers between dots, what follows is ignored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(Vec<u32>);

/// Text that does not begin with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Not a version")]
pub struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let mut numbers = Vec::new();
        for part in text.split('.').take(4) {
            let digits = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            match part[..digits].parse() {
                Ok(number) => numbers.push(number),
                Err(_) => break,
            }
            if digits < part.len() {
                break;
            }
        }
        // 4.2 and 4.2.0 are the same.
        while numbers.len() > 1 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        if numbers.is_empty() {
            Err(NoVersion)
        } else {
            Ok(Self(numbers))
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text: &str| text.parse::<Version>().expect(text);
        assert!(version("4.10") > version("4.9.3"));
        assert!(version("4.2.1") > version("4.2"));
        assert_eq!(version("4.2.0"), version("4.2"));
        assert_eq!(version("4.2.1-1+deb"), version("4.2.1"));
        assert_eq!(version("4.2rc1"), version("4.2"));
        for text in ["", "v4", ".1", "unknown"] {
            assert_eq!(text.parse::<Version>(), Err(NoVersion), "{text}");
        }
    }
}
