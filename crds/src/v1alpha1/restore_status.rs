//! Status of a RestoreRequest: what was chosen, what was decided, what each side reports.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{Decision, FenceKind, Mode, Progress, SourceEvidence, SourceState, TargetState};
use crate::schema;
use crate::words::words;

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.decision) || oldSelf.decision == 'Undecided' || (has(self.decision) && self.decision == oldSelf.decision)").message("a decision is made once"))]
#[x_kube(validation = Rule::new("!has(self.sourceEvidence) || (has(self.decision) && self.decision == 'Committed')").message("sourceEvidence follows the decision Committed"))]
pub struct RestoreRequestStatus {
    /// The generation of the request that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::generation")]
    pub observed_generation: Option<i64>,
    /// Succeeded says the end; Scheduled, Prefetched, Restored, HandedOver and Thawed the way there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How the pod moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Why in this way, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::message")]
    pub mode_message: Option<String>,
    /// Which side will run. It is changed once, by an update that carries resourceVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Node of the source, whose agent reports in `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub source_node_name: Option<String>,
    /// What the source's agent reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<RestoreSource>,
    /// Why the target may run, since the source cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_evidence: Option<SourceEvidence>,
    /// Node that was chosen, whose agent reports in `target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub node_name: Option<String>,
    /// The pod that is restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_pod: Option<TargetPod>,
    /// What the target's agent reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<RestoreTarget>,
    /// Time that the restore will take, against what the node allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<TimeEstimate>,
    /// Tries that failed, the last ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub attempts: Vec<Attempt>,
    /// Nodes that do not do, by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub rejected: Vec<RejectedNodes>,
    /// When it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub completion_time: Option<Time>,
    /// From the freeze of the source to the thaw of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub downtime_milliseconds: Option<i64>,
}

/// What the source's agent reports.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSource {
    /// Name of the pod.
    #[schemars(schema_with = "schema::name")]
    pub pod_name: String,
    /// Its UID.
    #[schemars(schema_with = "schema::uid")]
    pub pod_uid: String,
    /// How it is.
    #[serde(default)]
    pub state: SourceState,
    /// What keeps it from running. Absent: nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceKind>,
}

/// The pod that is restored.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetPod {
    /// Its name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Its UID. Absent: it is about to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uid")]
    pub uid: Option<String>,
    /// Who made it.
    pub origin: TargetOrigin,
}

words! {
    /// Who made the pod that is restored.
    TargetOrigin {
        /// The operator.
        Operator,
        /// The owner of the source, in whose place it is.
        Owner,
    }
}

/// What the target's agent reports.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreTarget {
    /// UID of the pod that this is about.
    #[schemars(schema_with = "schema::uid")]
    pub pod_uid: String,
    /// How it is.
    #[serde(default)]
    pub state: TargetState,
    /// Which GPU stands in for which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub gpus: Vec<GpuPair>,
    /// How far it is, now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Why it failed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::message")]
    pub message: Option<String>,
    /// The end of CRIU's log, if CRIU failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::log_tail")]
    pub criu_log_tail: Option<String>,
}

/// A GPU of the checkpoint and the one that stands in for it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuPair {
    /// Name of the container.
    #[schemars(schema_with = "schema::label_name")]
    pub container: String,
    /// gpu_id in the checkpoint.
    #[schemars(schema_with = "schema::gpu_id")]
    pub checkpoint_gpu_id: i64,
    /// gpu_id on the node.
    #[schemars(schema_with = "schema::gpu_id")]
    pub gpu_id: i64,
}

/// A try that failed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The node.
    #[schemars(schema_with = "schema::name")]
    pub node_name: String,
    /// Why, in one word.
    #[schemars(schema_with = "schema::reason")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::message")]
    pub message: String,
}

/// Nodes that do not do, for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedNodes {
    /// Why, in one word.
    #[schemars(schema_with = "schema::reason")]
    pub reason: String,
    /// Why, for people, as it is on the first of the nodes.
    #[schemars(schema_with = "schema::message")]
    pub message: String,
    /// The first of them, by name.
    #[schemars(schema_with = "schema::names")]
    pub nodes: Vec<String>,
    /// How many there are.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: i32,
}

/// Time of a restore.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimeEstimate {
    /// Seconds that creating the containers will take, at the rate measured on the node.
    #[schemars(schema_with = "schema::count")]
    pub expected_seconds: i64,
    /// Seconds that the node's kubelet allows (`runtimeRequestTimeout`).
    #[schemars(schema_with = "schema::count")]
    pub limit_seconds: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::v1alpha1::testing::{accepts_update, refuses, refuses_update};
    use crate::v1alpha1::{RestoreRequest, RestoreRequestSpec};

    fn with(status: Option<RestoreRequestStatus>) -> RestoreRequest {
        let spec: RestoreRequestSpec =
            serde_json::from_value(json!({ "from": { "checkpointRequest": { "name": "a" } } }))
                .expect("a spec");
        let mut request = RestoreRequest::new("move", spec);
        request.status = status;
        request
    }

    fn decided(decision: Option<Decision>) -> RestoreRequest {
        with(Some(RestoreRequestStatus {
            decision,
            ..Default::default()
        }))
    }

    #[test]
    fn a_decision_is_made_once() {
        use Decision::{Aborted, Committed, Undecided};
        let all = [None, Some(Undecided), Some(Committed), Some(Aborted)];
        for old in all {
            for new in all {
                let made = matches!(old, Some(Committed | Aborted));
                if made && old != new {
                    refuses_update(&decided(new), &decided(old), "a decision is made once");
                } else {
                    accepts_update(&decided(new), &decided(old));
                }
            }
            // Without it the next decision would be the first.
            if matches!(old, Some(Committed | Aborted)) {
                refuses_update(&with(None), &decided(old), "the status of a decided");
            } else {
                accepts_update(&with(None), &decided(old));
            }
        }
    }

    #[test]
    fn evidence_follows_the_commit() {
        let evidence = |decision| {
            with(Some(RestoreRequestStatus {
                decision,
                source_evidence: Some(SourceEvidence::Gone),
                ..Default::default()
            }))
        };
        accepts_update(
            &evidence(Some(Decision::Committed)),
            &decided(Some(Decision::Committed)),
        );
        for decision in [None, Some(Decision::Undecided), Some(Decision::Aborted)] {
            refuses(&evidence(decision), "follows the decision Committed");
        }
    }
}
