//! The compact form of a system: what a node of a cluster publishes about itself, as JSON or YAML.
//!
//! It keeps everything that [`System`] holds but the order of nodes and of links, which nothing depends on. Properties that GPUs have in
//! common are written once, and links are lists of node numbers by kind, so that 64 partitions with links from each
//! to each take some kilobytes.

mod list;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::properties::shorten;
use crate::sysfs::{MAX_ENTRIES, MAX_LINKS};
use crate::{
    ActualGpuId, CpuNode, GpuNode, GpuProperties, HiveId, Link, LinkKind, Node, NodeId,
    RenderMinor, System,
};

/// Version of the form that this crate writes and the only one that it reads. Fields may be added without a new one.
pub const COMPACT_VERSION: u32 = 1;

/// A system in its published form.
///
/// Fields that this version does not know are skipped when it is read, so that a newer writer may add some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactTopology {
    /// [`COMPACT_VERSION`].
    pub version: u32,
    /// CPU nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CompactCpu>,
    /// What GPUs have in common.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<CompactModel>,
    /// GPUs, partitions of a card one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<CompactGpu>,
    /// Nodes that exist but may not be read ([`System::masked`]): numbers and ranges, ascending, for instance
    /// `3,6-9`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub masked: String,
    /// Whether a process may run with XNACK ([`System::xnack`]). Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xnack: Option<bool>,
}

/// A CPU node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactCpu {
    /// Its number.
    pub node: NodeId,
    /// Logical CPUs.
    pub cores: u32,
    /// Links that start here.
    #[serde(default, skip_serializing_if = "CompactLinks::is_empty")]
    pub links: CompactLinks,
}

/// Everything about a GPU but its names, its place and its links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactModel {
    /// Version of the chip's instruction set, for instance 90402 ([`GpuNode::gfx_target_version`]). Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gfx_target_version: Option<u32>,
    /// Compute dies of the partition. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_xcc: Option<u32>,
    /// How the card is divided, in the kernel's word, for instance `CPX`. Absent: not known; a word that this
    /// version does not know counts as absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_partition: Option<String>,
    /// How the memory of the card is divided, in the kernel's word, for instance `NPS4`; as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_partition: Option<String>,
    /// What is compared, named as in sysfs.
    pub properties: GpuProperties,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactGpu {
    /// Its number.
    pub node: NodeId,
    /// Its gpu_id, never 0.
    pub gpu_id: ActualGpuId,
    /// Its render node: N of `/dev/dri/renderDN`.
    pub render_minor: RenderMinor,
    /// PCI domain.
    pub domain: u32,
    /// PCI bus, device, function and number of the partition, as in sysfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location_id: Option<u32>,
    /// Serial of the chip: `0x` and hexadecimal digits, since JSON's numbers end at 53 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_id: Option<String>,
    /// The kernel's name of its hive, in the same form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hive_id: Option<String>,
    /// Which of [`CompactTopology::models`], from 0.
    pub model: u32,
    /// Links that start here.
    #[serde(default, skip_serializing_if = "CompactLinks::is_empty")]
    pub links: CompactLinks,
}

/// Links away from a node: the nodes that they lead to, as numbers and ranges in ascending order, for instance
/// `0,3-9`. A number that comes twice stands for two links. The way back is a link of the other node. Links to
/// masked nodes are among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactLinks {
    /// PCIe.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pcie: String,
    /// XGMI.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub xgmi: String,
    /// Other kinds, mostly between CPUs. Nothing compares them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other: Vec<CompactOtherLinks>,
}

/// Links that are neither PCIe nor XGMI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactOtherLinks {
    /// The kernel's number of the kind.
    #[serde(rename = "type")]
    pub kind: u32,
    /// Where they lead.
    pub nodes: String,
}

/// A compact form that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompactError {
    /// Another version.
    #[error("Version {version} is not understood, only version {COMPACT_VERSION}")]
    Version {
        /// Version found.
        version: u32,
    },
    /// A node comes twice, or is present and masked.
    #[error("Node {node} is there twice")]
    DuplicateNode {
        /// The node.
        node: NodeId,
    },
    /// Two GPUs have the same gpu_id.
    #[error("GPU {gpu} is node {first} and node {second}")]
    DuplicateGpu {
        /// The gpu_id.
        gpu: ActualGpuId,
        /// One node.
        first: NodeId,
        /// The other.
        second: NodeId,
    },
    /// 0 is what CPUs have.
    #[error("GPU of node {node} has gpuId 0")]
    NoGpuId {
        /// The node.
        node: NodeId,
    },
    /// A GPU of a model that is not listed.
    #[error("GPU of node {node} is of model {model}, but there are {models} models")]
    NoModel {
        /// The node.
        node: NodeId,
        /// Index given.
        model: u32,
        /// Models listed.
        models: usize,
    },
    /// A list of nodes is malformed.
    #[error("Invalid list of nodes {text:?} in {field}: {reason}")]
    List {
        /// Where it stands.
        field: &'static str,
        /// The list, shortened.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A 64 bit id is malformed.
    #[error("Invalid {field} {text:?} of node {node}: expected 0x and up to 16 hexadecimal digits")]
    Hex {
        /// Which id.
        field: &'static str,
        /// The node.
        node: NodeId,
        /// What stands there, shortened.
        text: String,
    },
    /// More nodes than any machine has.
    #[error("More than {limit} nodes")]
    TooManyNodes {
        /// The bound.
        limit: usize,
    },
    /// More links than any machine has.
    #[error("More than {limit} links")]
    TooManyLinks {
        /// The bound.
        limit: usize,
    },
}

impl CompactLinks {
    /// No link at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pcie.is_empty() && self.xgmi.is_empty() && self.other.is_empty()
    }

    fn new(links: &[Link]) -> Self {
        let mut kinds: Vec<LinkKind> = links.iter().map(|link| link.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut compact = Self::default();
        for kind in kinds {
            let same = links.iter().filter(|link| link.kind == kind);
            let mut nodes: Vec<NodeId> = same.map(|link| link.to).collect();
            nodes.sort_unstable();
            let nodes = list::write(&nodes);
            match kind {
                LinkKind::Pcie => compact.pcie = nodes,
                LinkKind::Xgmi => compact.xgmi = nodes,
                LinkKind::Other(kind) => compact.other.push(CompactOtherLinks { kind, nodes }),
            }
        }
        compact
    }

    /// The links in order of kind and far end. `left` is how many more there may be.
    fn links(&self, left: &mut usize) -> Result<Vec<Link>, CompactError> {
        let other = self
            .other
            .iter()
            .map(|links| (LinkKind::from_raw(links.kind), &links.nodes, "other"));
        let kinds = [
            (LinkKind::Pcie, &self.pcie, "pcie"),
            (LinkKind::Xgmi, &self.xgmi, "xgmi"),
        ];
        let mut found = Vec::new();
        for (kind, nodes, field) in kinds.into_iter().chain(other) {
            let nodes = list::read(nodes, *left).map_err(|error| match error {
                list::ListError::TooLong => CompactError::TooManyLinks { limit: MAX_LINKS },
                list::ListError::Malformed(reason) => malformed(field, nodes, reason),
            })?;
            *left -= nodes.len();
            found.extend(nodes.into_iter().map(|to| Link::new(kind, to)));
        }
        // `other` may hold any kind in any order.
        found.sort_by_key(|link| (link.kind, link.to));
        Ok(found)
    }
}

impl CompactModel {
    fn new(gpu: &GpuNode) -> Self {
        Self {
            gfx_target_version: gpu.gfx_target_version,
            num_xcc: gpu.num_xcc,
            compute_partition: gpu.compute_partition.map(|mode| mode.to_string()),
            memory_partition: gpu.memory_partition.map(|mode| mode.to_string()),
            properties: gpu.properties.clone(),
        }
    }
}

impl From<&System> for CompactTopology {
    fn from(system: &System) -> Self {
        let mut nodes: Vec<&Node> = system.nodes.iter().collect();
        nodes.sort_by_key(|node| node.id());
        let mut masked = system.masked.clone();
        masked.sort_unstable();
        let mut compact = Self {
            version: COMPACT_VERSION,
            cpus: Vec::new(),
            models: Vec::new(),
            gpus: Vec::new(),
            masked: list::write(&masked),
            xnack: system.xnack,
        };
        for node in nodes {
            let links = CompactLinks::new(node.links());
            match node {
                Node::Cpu(cpu) => compact.cpus.push(CompactCpu {
                    node: cpu.node,
                    cores: cpu.cpu_cores,
                    links,
                }),
                Node::Gpu(gpu) => {
                    let model = CompactModel::new(gpu);
                    let known = compact.models.iter().position(|other| *other == model);
                    let index = known.unwrap_or_else(|| {
                        compact.models.push(model);
                        compact.models.len() - 1
                    });
                    compact.gpus.push(CompactGpu {
                        node: gpu.node,
                        gpu_id: gpu.id,
                        render_minor: gpu.render_minor,
                        domain: gpu.domain,
                        location_id: gpu.location_id,
                        unique_id: gpu.unique_id.map(|id| format!("0x{id:x}")),
                        hive_id: gpu.hive_id.map(|id| id.to_string()),
                        // As many as there are GPUs at most: nothing holds 2^32 of them.
                        model: u32::try_from(index).unwrap_or(u32::MAX),
                        links,
                    });
                }
            }
        }
        compact
    }
}

/// The nodes come out sorted by number, links by kind and far end, resolved by [`System::new`].
impl TryFrom<&CompactTopology> for System {
    type Error = CompactError;

    fn try_from(compact: &CompactTopology) -> Result<Self, CompactError> {
        if compact.version != COMPACT_VERSION {
            let version = compact.version;
            return Err(CompactError::Version { version });
        }
        let too_many = CompactError::TooManyNodes { limit: MAX_ENTRIES };
        let present = compact.cpus.len() + compact.gpus.len();
        let left = MAX_ENTRIES.checked_sub(present).ok_or(too_many.clone())?;
        let masked = list::read(&compact.masked, left).map_err(|error| match error {
            list::ListError::TooLong => too_many,
            list::ListError::Malformed(reason) => malformed("masked", &compact.masked, reason),
        })?;
        check_unique(compact, &masked)?;
        let mut left = MAX_LINKS;
        let mut nodes = Vec::with_capacity(present);
        for cpu in &compact.cpus {
            nodes.push(Node::Cpu(CpuNode {
                node: cpu.node,
                cpu_cores: cpu.cores,
                links: cpu.links.links(&mut left)?,
            }));
        }
        for gpu in &compact.gpus {
            nodes.push(Node::Gpu(read_gpu(gpu, &compact.models, &mut left)?));
        }
        nodes.sort_by_key(Node::id);
        Ok(Self {
            xnack: compact.xnack,
            ..Self::new(nodes, masked)
        })
    }
}

fn check_unique(compact: &CompactTopology, masked: &[NodeId]) -> Result<(), CompactError> {
    let cpus = compact.cpus.iter().map(|cpu| cpu.node);
    let gpus = compact.gpus.iter().map(|gpu| gpu.node);
    let mut nodes = HashSet::new();
    for node in cpus.chain(gpus).chain(masked.iter().copied()) {
        if !nodes.insert(node) {
            return Err(CompactError::DuplicateNode { node });
        }
    }
    let mut ids = HashMap::new();
    for gpu in &compact.gpus {
        if gpu.gpu_id.get() == 0 {
            return Err(CompactError::NoGpuId { node: gpu.node });
        }
        if let Some(first) = ids.insert(gpu.gpu_id, gpu.node) {
            let (gpu, second) = (gpu.gpu_id, gpu.node);
            return Err(CompactError::DuplicateGpu { gpu, first, second });
        }
    }
    Ok(())
}

fn read_gpu(
    gpu: &CompactGpu,
    models: &[CompactModel],
    left: &mut usize,
) -> Result<GpuNode, CompactError> {
    let node = gpu.node;
    let model = usize::try_from(gpu.model)
        .ok()
        .and_then(|index| models.get(index))
        .ok_or(CompactError::NoModel {
            node,
            model: gpu.model,
            models: models.len(),
        })?;
    let hex = |field, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => parse_hex(text).map(Some).ok_or(CompactError::Hex {
            field,
            node,
            text: shorten(text),
        }),
    };
    Ok(GpuNode {
        node,
        id: gpu.gpu_id,
        render_minor: gpu.render_minor,
        domain: gpu.domain,
        hive_id: hex("hiveId", &gpu.hive_id)?.and_then(HiveId::from_raw),
        properties: model.properties.clone(),
        location_id: gpu.location_id,
        unique_id: hex("uniqueId", &gpu.unique_id)?,
        gfx_target_version: model.gfx_target_version,
        num_xcc: model.num_xcc,
        compute_partition: model
            .compute_partition
            .as_deref()
            .and_then(|mode| mode.parse().ok()),
        memory_partition: model
            .memory_partition
            .as_deref()
            .and_then(|mode| mode.parse().ok()),
        links: gpu.links.links(left)?,
    })
}

fn parse_hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    // `from_str_radix` would take a sign as well.
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (all_digits && digits.len() <= 16)
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

fn malformed(field: &'static str, text: &str, reason: &'static str) -> CompactError {
    CompactError::List {
        field,
        text: shorten(text),
        reason,
    }
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
