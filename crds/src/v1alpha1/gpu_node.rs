//! `GpuNode`: what a node with GPUs tells about itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use rocferry_topology::CompactTopology;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::words::words;

/// Which node it is about.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "rocferry.dev",
    version = "v1alpha1",
    kind = "GpuNode",
    status = "GpuNodeStatus",
    derive = "PartialEq",
    shortname = "gpun",
    category = "gpu-checkpoint",
    doc = "GPUs, versions and limits of a node, written by its agent. It has the name of the node.",
    validation = Rule::new("self.metadata.name == self.spec.nodeName").message("a GpuNode has the name of its node"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".status.gpuCount"),
    printcolumn(name = "Free", type_ = "integer", json_path = ".status.freeGpuCount"),
    printcolumn(name = "Model", type_ = "string", json_path = ".status.model"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "CRIU", type_ = "string", json_path = ".status.versions.criu", priority = "1"),
    printcolumn(
        name = "Plugin",
        type_ = "string",
        json_path = ".status.versions.plugin",
        priority = "1"
    ),
    printcolumn(
        name = "Kernel",
        type_ = "string",
        json_path = ".status.versions.kernel",
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("a GpuNode stays with its node"))]
pub struct GpuNodeSpec {
    /// Name of the node.
    #[schemars(schema_with = "schema::name")]
    pub node_name: String,
}

/// What its agent has found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuNodeStatus {
    /// The generation of the object that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::generation")]
    pub observed_generation: Option<i64>,
    /// Ready: the agent works, and checkpoints and restores are possible here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// GPUs and CPUs, and the links between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::topology")]
    pub topology: Option<CompactTopology>,
    /// Number of GPUs, partitions one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 256))]
    pub gpu_count: Option<i32>,
    /// Number of those that no container has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 256))]
    pub free_gpu_count: Option<i32>,
    /// Chip of the GPUs, as in gfx942.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub model: Option<String>,
    /// GPUs that containers have, as the kubelet tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["gpuId".into()]))]
    pub in_use: Vec<GpuUse>,
    /// Versions of what takes part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
    /// Features of the CPU that programs use by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::short_texts")]
    pub cpu_features: Vec<String>,
    /// What can be done here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub features: Vec<Feature>,
    /// Time and rate of a restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// CheckpointStores that the agent was configured for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names")]
    pub stores: Vec<String>,
    /// Checkpoints whose data is here, the last ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["checkpointId".into()]))]
    pub cached: Vec<CachedCheckpoint>,
}

/// A GPU that a container has.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuUse {
    /// The kernel's gpu_id.
    #[schemars(schema_with = "schema::gpu_id")]
    pub gpu_id: i64,
    /// Namespace of the pod.
    #[schemars(schema_with = "schema::label_name")]
    pub namespace: String,
    /// Name of the pod.
    #[schemars(schema_with = "schema::name")]
    pub pod_name: String,
    /// Name of the container.
    #[schemars(schema_with = "schema::label_name")]
    pub container: String,
}

/// Versions, as each program says them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub agent: Option<String>,
    /// CRIU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub criu: Option<String>,
    /// The plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub plugin: Option<String>,
    /// The kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub kernel: Option<String>,
    /// KFD's interface, as in 1.17.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub kfd: Option<String>,
    /// The container runtime, as in containerd://2.1.9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub container_runtime: Option<String>,
    /// The OCI runtime below the wrapper, as in runc 1.3.6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub oci_runtime: Option<String>,
}

words! {
    /// What a node can do beyond checkpoints.
    Feature {
        /// Pods can run under the wrapper, so checkpoints can be restored and sources be fenced.
        Wrapper,
        /// Restored containers can be held, which needs cgroup version 2.
        HeldRestore,
        /// Liveness probes of frozen pods are answered.
        ProbeResponder,
    }
}

/// Time and rate of a restore.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// The kubelet's `runtimeRequestTimeout`: a restore that takes longer never ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub runtime_request_timeout_seconds: Option<i32>,
    /// Bytes that a restore brings back in a second, as measured here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub restore_bytes_per_second: Option<i64>,
    /// Room for checkpoints on their way, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub spool_bytes: Option<i64>,
}

/// A checkpoint whose data is on the node.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CachedCheckpoint {
    /// Its name in its store.
    #[schemars(schema_with = "schema::checkpoint_id")]
    pub checkpoint_id: String,
    /// Bytes of it that are here.
    #[schemars(schema_with = "schema::count")]
    pub bytes: i64,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use rocferry_topology::{
        ActualGpuId, COMPACT_VERSION, CompactCpu, CompactGpu, CompactLinks, CompactModel,
        CompactOtherLinks, GpuProperties, NodeId, RenderMinor, Vram,
    };
    use serde_json::Value;

    use super::*;
    use crate::v1alpha1::testing::{accepts, accepts_update, refuses, refuses_update};

    fn node(name: &str, node_name: &str) -> GpuNode {
        let node_name = node_name.to_owned();
        GpuNode::new(name, GpuNodeSpec { node_name })
    }

    #[test]
    fn it_has_the_name_of_its_node_for_ever() {
        accepts(&node("n1", "n1"));
        refuses(&node("n1", "n2"), "has the name of its node");
        accepts_update(&node("n1", "n1"), &node("n1", "n1"));
        refuses_update(&node("n1", "n2"), &node("n1", "n1"), "stays with its node");
    }

    /// Everything that the published form can hold.
    fn full() -> CompactTopology {
        let links = CompactLinks {
            pcie: "0,3-9".to_owned(),
            xgmi: "2".to_owned(),
            other: vec![CompactOtherLinks {
                kind: 1,
                nodes: "1".to_owned(),
            }],
        };
        CompactTopology {
            version: COMPACT_VERSION,
            cpus: vec![CompactCpu {
                node: NodeId(0),
                cores: 64,
                links: links.clone(),
            }],
            models: vec![CompactModel {
                gfx_target_version: Some(90402),
                num_xcc: Some(8),
                compute_partition: Some("SPX".to_owned()),
                memory_partition: Some("NPS1".to_owned()),
                properties: GpuProperties {
                    vram: Some(Vram {
                        public: true,
                        size: 192 << 30,
                    }),
                    ..GpuProperties::default()
                },
            }],
            gpus: vec![CompactGpu {
                node: NodeId(1),
                gpu_id: ActualGpuId(0xd51a),
                render_minor: RenderMinor(128),
                domain: 0,
                location_id: Some(33536),
                unique_id: Some("0x66930be6fe58de47".to_owned()),
                hive_id: Some("0x1".to_owned()),
                model: 0,
                links,
            }],
            masked: "5".to_owned(),
            xnack: Some(false),
        }
    }

    /// The API server drops fields that a schema does not have, and refuses what is required and absent.
    fn check(value: &Value, schema: &Value, path: &str) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let schema = &schema["properties"][name];
                    assert!(schema.is_object(), "{path}.{name} is not in the schema");
                    check(value, schema, &format!("{path}.{name}"));
                }
                for name in schema["required"].as_array().into_iter().flatten() {
                    let name = name.as_str().expect("a name");
                    assert!(
                        fields.contains_key(name),
                        "{path}.{name} is required and absent"
                    );
                }
            }
            Value::Array(items) => {
                for item in items {
                    check(item, &schema["items"], path);
                }
            }
            _ => {
                let kind = match value {
                    Value::Bool(_) => "boolean",
                    Value::Number(_) => "integer",
                    _ => "string",
                };
                assert_eq!(schema["type"], kind, "{path}");
            }
        }
    }

    fn topology_schema() -> Value {
        let crd = serde_json::to_value(GpuNode::crd()).expect("JSON");
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
            ["properties"]["topology"]
            .clone()
    }

    #[test]
    fn the_schema_keeps_the_whole_topology() {
        let value = serde_json::to_value(full()).expect("JSON");
        check(&value, &topology_schema(), "topology");
        // The least that is written.
        let empty = CompactTopology {
            cpus: vec![],
            models: vec![CompactModel {
                gfx_target_version: None,
                num_xcc: None,
                compute_partition: None,
                memory_partition: None,
                properties: GpuProperties::default(),
            }],
            gpus: vec![],
            masked: String::new(),
            xnack: None,
            version: COMPACT_VERSION,
        };
        let value = serde_json::to_value(empty).expect("JSON");
        check(&value, &topology_schema(), "topology");
    }

    #[test]
    #[should_panic(expected = "topology.extra is not in the schema")]
    fn a_field_that_the_schema_lacks_is_noticed() {
        let mut value = serde_json::to_value(full()).expect("JSON");
        value["extra"] = Value::from(1);
        check(&value, &topology_schema(), "topology");
    }
}
