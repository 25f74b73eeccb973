//! `CheckpointSchedule`: checkpoints again and again.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{Compression, TcpConnections};
use crate::schema;
use crate::words::words;

/// Which pods, how often, and what for.
#[derive(Clone, Debug, PartialEq, CustomResource, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "rocferry.dev",
    version = "v1alpha1",
    kind = "CheckpointSchedule",
    namespaced,
    status = "CheckpointScheduleStatus",
    derive = "PartialEq",
    shortname = "ckptsched",
    category = "gpu-checkpoint",
    doc = "Checkpoints of pods at an interval, made as CheckpointRequests; the last ones are kept.",
    selectable = ".spec.store",
    printcolumn(name = "Every", type_ = "integer", json_path = ".spec.intervalSeconds"),
    printcolumn(name = "Keep", type_ = "integer", json_path = ".spec.keep"),
    printcolumn(
        name = "Last",
        type_ = "date",
        json_path = ".status.lastSuccessfulTime"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Suspend",
        type_ = "boolean",
        json_path = ".spec.suspend",
        priority = "1"
    ),
    printcolumn(
        name = "Store",
        type_ = "string",
        json_path = ".spec.store",
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.timeoutSeconds) || self.timeoutSeconds <= self.intervalSeconds").message("timeoutSeconds cannot be longer than intervalSeconds"))]
pub struct CheckpointScheduleSpec {
    /// The pods, in the namespace of the schedule.
    pub selector: PodSelector,
    /// Seconds from one checkpoint of a pod to its next.
    #[schemars(range(min = 60, max = 31_536_000))]
    pub interval_seconds: i32,
    /// How many checkpoints of a pod are kept.
    #[serde(default = "default_keep")]
    #[schemars(range(min = 1, max = 1000))]
    pub keep: i32,
    /// Name of the CheckpointStore that keeps them.
    #[schemars(schema_with = "schema::name")]
    pub store: String,
    /// Make none for now.
    #[serde(default)]
    pub suspend: bool,
    /// How the data is compressed.
    #[serde(default)]
    pub compression: Compression,
    /// What becomes of TCP connections in the copies.
    #[serde(default)]
    pub tcp_connections: TcpConnections,
    /// Give one checkpoint up after this time. Absent: as for a CheckpointRequest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<i32>,
    /// What is done when a pod's node is lost.
    #[serde(default)]
    pub restore_on_node_loss: RestoreOnNodeLoss,
}

const fn default_keep() -> i32 {
    3
}

/// Pods with labels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("size(self.matchLabels) > 0").message("a selector without labels would take every pod"))]
pub struct PodSelector {
    /// Labels that they have, all of them.
    #[schemars(schema_with = "schema::labels")]
    pub match_labels: BTreeMap<String, String>,
}

words! {
    /// What is done when a pod's node is lost.
    RestoreOnNodeLoss: Never {
        /// Nothing: its owner may start another one.
        Never,
        /// The last checkpoint is restored elsewhere. What the pod did after it is lost.
        LastCheckpoint,
    }
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointScheduleStatus {
    /// The generation of the object that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::generation")]
    pub observed_generation: Option<i64>,
    /// Ready: the store may be used, and the last checkpoints were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When a checkpoint was last asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_schedule_time: Option<Time>,
    /// When one was last stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_successful_time: Option<Time>,
    /// Pods that it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub pods: Option<i32>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::v1alpha1::testing::{accepts, accepts_update, refuses};

    fn schedule(change: impl FnOnce(&mut Value)) -> CheckpointSchedule {
        let mut spec = json!({ "selector": { "matchLabels": { "app": "train" } },
            "intervalSeconds": 600, "store": "lab" });
        change(&mut spec);
        CheckpointSchedule::new("hourly", serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn a_schedule_may_change() {
        let old = schedule(|_| ());
        accepts(&old);
        accepts_update(&schedule(|spec| spec["intervalSeconds"] = json!(900)), &old);
    }

    #[test]
    fn it_takes_labels() {
        let all = schedule(|spec| spec["selector"]["matchLabels"] = json!({}));
        refuses(&all, "would take every pod");
    }

    #[test]
    fn one_is_over_before_the_next() {
        accepts(&schedule(|spec| spec["timeoutSeconds"] = json!(600)));
        refuses(
            &schedule(|spec| spec["timeoutSeconds"] = json!(601)),
            "longer than intervalSeconds",
        );
    }
}
