//! `RestoreRequest`: make a pod from a checkpoint, and move a pod if asked to.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::RestoreRequestStatus;
use crate::schema;
use crate::words::words;

/// What is asked for. It cannot be changed: another restore is another request.
#[derive(Clone, Debug, PartialEq, CustomResource, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "rocferry.dev",
    version = "v1alpha1",
    kind = "RestoreRequest",
    namespaced,
    status = "RestoreRequestStatus",
    derive = "PartialEq",
    shortname = "rstr",
    category = "gpu-checkpoint",
    doc = "A pod made from a checkpoint on a node whose GPUs fit; with sourcePolicy Fence, a pod that moves.",
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.decision) || oldSelf.status.decision == 'Undecided' || has(self.status)").message("the status of a decided request stays"),
    selectable = ".status.nodeName",
    selectable = ".status.sourceNodeName",
    printcolumn(name = "Pod", type_ = "string", json_path = ".status.targetPod.name"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Succeeded\")].reason"
    ),
    printcolumn(name = "Decision", type_ = "string", json_path = ".status.decision"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Source",
        type_ = "string",
        json_path = ".spec.from.checkpointRequest.name",
        priority = "1"
    ),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".status.mode",
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Succeeded\")].message",
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("spec cannot be changed: make another RestoreRequest"))]
#[x_kube(validation = Rule::new("self.sourcePolicy != 'Fence' || has(self.from.checkpointRequest)").message("sourcePolicy: Fence needs from.checkpointRequest: an image has no pod to move"))]
#[x_kube(validation = Rule::new("self.sourcePolicy != 'Fence' || !has(self.from.checkpointRequest) || !has(self.from.checkpointRequest.__namespace__)").message("sourcePolicy: Fence moves within a namespace: leave from.checkpointRequest.namespace out"))]
#[x_kube(validation = Rule::new("self.mode != 'StopFirst' || self.sourcePolicy == 'Fence'").message("mode: StopFirst stops a source: set sourcePolicy: Fence"))]
#[x_kube(validation = Rule::new("self.fence != 'BestEffort' || self.sourcePolicy == 'Fence'").message("fence is about the source: set sourcePolicy: Fence"))]
pub struct RestoreRequestSpec {
    /// What is restored.
    pub from: RestoreFrom,
    /// Where it may go. Absent: any node whose GPUs fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Checks of the GPUs to leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<Compatibility>,
    /// What is to be different in the new pod. Nothing else can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// What becomes of the pod that was checkpointed.
    #[serde(default)]
    pub source_policy: SourcePolicy,
    /// How a pod moves.
    #[serde(default)]
    pub mode: Mode,
    /// How sure it must be that the source cannot run again.
    #[serde(default)]
    pub fence: Fence,
    /// What a container does that ends after its restore and is restarted.
    #[serde(default)]
    pub on_container_restart: OnContainerRestart,
    /// What is done if the node of a moved pod is lost before the request is deleted.
    #[serde(default)]
    pub on_node_loss: OnNodeLoss,
    /// Answer with mode, node, limits and reasons, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Give up after this time, as long as nothing is decided.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: i32,
    /// Delete the request this long after its end; the pod stays. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub ttl_seconds: Option<i32>,
}

const fn default_timeout() -> i32 {
    1800
}

/// One of two.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.checkpointRequest) != has(self.image)").message("give exactly one of checkpointRequest and image"))]
pub struct RestoreFrom {
    /// The checkpoint that a CheckpointRequest took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_request: Option<CheckpointRef>,
    /// Checkpoints in a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageRef>,
}

/// A CheckpointRequest.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointRef {
    /// Its name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Its namespace, if it is another one, which must then have given a CheckpointGrant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_name")]
    pub namespace: Option<String>,
}

/// Checkpoints in a store, those of one pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageRef {
    /// Name of the CheckpointStore.
    #[schemars(schema_with = "schema::name")]
    pub store: String,
    /// Names of the checkpoints there, one for each container.
    #[schemars(schema_with = "schema::checkpoint_ids")]
    pub checkpoint_ids: Vec<String>,
    /// The namespace that they were taken in, if it is another one, which must then have given a CheckpointGrant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_name")]
    pub namespace: Option<String>,
}

/// Where a pod may go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.nodeName) && has(self.nodeSelector))").message("give nodeName or nodeSelector, not both"))]
pub struct Placement {
    /// This node or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub node_name: Option<String>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub node_selector: BTreeMap<String, String>,
}

/// Checks that are left out, at the price of what they are for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compatibility {
    /// The checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub disabled_checks: Vec<Check>,
}

words! {
    /// A check of the GPUs that can be left out, as the plugin's variables `KFD_…_CHECK` do.
    Check {
        /// Capability bits are equal.
        Capability,
        /// There is as much GPU memory.
        VramSize,
        /// There are as many global wave sync entries.
        NumGws,
        /// As many caches are listed.
        CachesCount,
        /// The compute firmware is as new.
        FwVersion,
        /// The SDMA firmware is as new.
        SdmaFwVersion,
        /// GPUs of one CPU stay together.
        Numa,
    }
}

/// What may be different in the new pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.labels) || self.labels.all(key, !key.contains('rocferry.dev/'))").message("labels of rocferry.dev are the operator's"))]
#[x_kube(validation = Rule::new("!has(self.annotations) || self.annotations.all(key, !key.contains('rocferry.dev/') && !key.contains('org.criu.'))").message("annotations of rocferry.dev and org.criu are the operator's"))]
pub struct PodTemplate {
    /// Its name. Absent: made from the source's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub name: Option<String>,
    /// Labels to add, or to give another value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add, or to give another value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub annotations: BTreeMap<String, String>,
    /// Its priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub priority_class_name: Option<String>,
    /// Tolerations to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,
    /// Limits of containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub containers: Vec<ContainerOverride>,
}

/// A taint that is tolerated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.operator != 'Exists' || !has(self.value)").message("operator: Exists takes no value"))]
pub struct Toleration {
    /// Key of the taint.
    #[schemars(schema_with = "schema::short_text")]
    pub key: String,
    /// How the value is compared.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub value: Option<String>,
    /// Its effect. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TolerationEffect>,
}

words! {
    /// How the value of a taint is compared.
    TolerationOperator: Equal {
        /// It is the same.
        Equal,
        /// It may be anything.
        Exists,
    }
}

words! {
    /// Effect of a taint.
    TolerationEffect {
        /// New pods are kept away.
        NoSchedule,
        /// New pods are kept away if there is another place.
        PreferNoSchedule,
        /// Pods are evicted.
        NoExecute,
    }
}

/// Limits of one container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerOverride {
    /// Name of the container.
    #[schemars(schema_with = "schema::label_name")]
    pub name: String,
    /// Request and limit of memory in bytes: a restore is charged to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub memory_bytes: Option<i64>,
}

words! {
    /// What becomes of the source.
    SourcePolicy: Keep {
        /// Nothing: the restored pod is a copy.
        Keep,
        /// It never runs again: the pod moves.
        Fence,
    }
}

words! {
    /// How a pod moves.
    Mode: Held {
        /// The target is restored beside the frozen source, and held until the decision.
        Held,
        /// The source is gone before the target is made: for pods of which there cannot be two.
        StopFirst,
    }
}

words! {
    /// How sure it must be that the source cannot run again when its node does not answer.
    Fence: Required {
        /// The runtime wrapper's fence, or the pod is not moved.
        Required,
        /// Where the pod does not run under the wrapper, its frozen cgroup; a reboot of the node would start it cold.
        BestEffort,
    }
}

words! {
    /// What a restored container does when it is restarted.
    OnContainerRestart: ColdStart {
        /// It starts as any container does.
        ColdStart,
        /// It is restored again from the same checkpoint.
        RestoreAgain,
        /// It does not start, and says why.
        Refuse,
    }
}

words! {
    /// What is done about a moved pod whose node is lost.
    OnNodeLoss: LeaveToOwner {
        /// Nothing: its owner may start another one.
        LeaveToOwner,
        /// It is restored again from the same checkpoint.
        RestoreAgain,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::v1alpha1::testing::{accepts, accepts_update, refuses, refuses_update};

    fn request(spec: serde_json::Value) -> RestoreRequest {
        RestoreRequest::new("a", serde_json::from_value(spec).expect("a spec"))
    }

    fn of_request(more: serde_json::Value) -> RestoreRequest {
        let mut spec = json!({ "from": { "checkpointRequest": { "name": "nightly" } } });
        let (Some(spec_map), serde_json::Value::Object(more)) = (spec.as_object_mut(), more) else {
            panic!("objects");
        };
        spec_map.extend(more);
        request(spec)
    }

    fn image() -> serde_json::Value {
        json!({ "store": "lab", "checkpointIds": ["20261201t093000-0123456789ab"] })
    }

    #[test]
    fn exactly_one_source() {
        let reference = json!({ "name": "nightly" });
        accepts(&request(
            json!({ "from": { "checkpointRequest": reference } }),
        ));
        accepts(&request(json!({ "from": { "image": image() } })));
        let both = json!({ "from": { "checkpointRequest": reference, "image": image() } });
        refuses(&request(both), "exactly one of");
        refuses(&request(json!({ "from": {} })), "exactly one of");
    }

    #[test]
    fn a_fence_needs_a_pod_of_this_namespace() {
        accepts(&of_request(json!({ "sourcePolicy": "Fence" })));
        let image = json!({ "from": { "image": image() }, "sourcePolicy": "Fence" });
        refuses(&request(image), "an image has no pod to move");
        let from = json!({ "checkpointRequest": { "name": "nightly", "namespace": "other" } });
        accepts(&request(json!({ "from": from })));
        let fence = json!({ "from": from, "sourcePolicy": "Fence" });
        refuses(&request(fence), "moves within a namespace");
    }

    #[test]
    fn mode_and_fence_are_about_a_source() {
        accepts(&of_request(
            json!({ "sourcePolicy": "Fence", "mode": "StopFirst" }),
        ));
        refuses(
            &of_request(json!({ "mode": "StopFirst" })),
            "StopFirst stops a source",
        );
        accepts(&of_request(
            json!({ "sourcePolicy": "Fence", "fence": "BestEffort" }),
        ));
        refuses(
            &of_request(json!({ "fence": "BestEffort" })),
            "fence is about the source",
        );
    }

    #[test]
    fn a_node_or_a_selector() {
        let selector = json!({ "pool": "mi300" });
        accepts(&of_request(json!({ "placement": {} })));
        accepts(&of_request(json!({ "placement": { "nodeName": "n1" } })));
        accepts(&of_request(
            json!({ "placement": { "nodeSelector": selector } }),
        ));
        let both = json!({ "placement": { "nodeName": "n1", "nodeSelector": selector } });
        refuses(&of_request(both), "not both");
    }

    #[test]
    fn a_template_cannot_speak_for_the_operator() {
        let with =
            |field: &str, key: &str| of_request(json!({ "podTemplate": { field: { key: "x" } } }));
        accepts(&with("labels", "team"));
        accepts(&with("annotations", "example.com/note"));
        refuses(
            &with("labels", "rocferry.dev/request"),
            "labels of rocferry.dev",
        );
        refuses(
            &with("annotations", "rocferry.dev/restore"),
            "annotations of rocferry.dev",
        );
        refuses(
            &with("annotations", "org.criu.config"),
            "annotations of rocferry.dev and org.criu",
        );
    }

    #[test]
    fn a_toleration_of_any_value_has_none() {
        let with =
            |toleration| of_request(json!({ "podTemplate": { "tolerations": [toleration] } }));
        accepts(&with(json!({ "key": "gpu", "operator": "Exists" })));
        accepts(&with(json!({ "key": "gpu", "value": "amd" })));
        refuses(
            &with(json!({ "key": "gpu", "operator": "Exists", "value": "amd" })),
            "takes no value",
        );
    }

    #[test]
    fn spec_is_immutable() {
        let old = of_request(json!({ "sourcePolicy": "Fence" }));
        accepts_update(&old, &old);
        for more in [
            json!({ "sourcePolicy": "Keep" }),
            json!({ "sourcePolicy": "Fence", "dryRun": true }),
            json!({ "sourcePolicy": "Fence", "timeoutSeconds": 5 }),
        ] {
            refuses_update(&of_request(more), &old, "spec cannot be changed");
        }
    }
}
