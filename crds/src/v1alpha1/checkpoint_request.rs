//! `CheckpointRequest`: take a checkpoint of a pod, once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::SourceState;
use crate::schema;
use crate::words::words;

/// What is asked for. It cannot be changed: another checkpoint is another request.
#[derive(Clone, Debug, PartialEq, CustomResource, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "rocferry.dev",
    version = "v1alpha1",
    kind = "CheckpointRequest",
    namespaced,
    status = "CheckpointRequestStatus",
    derive = "PartialEq",
    shortname = "ckpt",
    category = "gpu-checkpoint",
    doc = "A checkpoint of a pod's containers, GPU memory and queues included, taken once.",
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.claim) || has(self.status)").message("the status of a claimed checkpoint stays"),
    selectable = ".spec.podName",
    selectable = ".spec.store",
    selectable = ".status.nodeName",
    printcolumn(name = "Pod", type_ = "string", json_path = ".spec.podName"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Succeeded\")].reason"
    ),
    printcolumn(name = "Size", type_ = "integer", json_path = ".status.sizeBytes"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Store",
        type_ = "string",
        json_path = ".spec.store",
        priority = "1"
    ),
    printcolumn(
        name = "After",
        type_ = "string",
        json_path = ".spec.after",
        priority = "1"
    ),
    printcolumn(
        name = "Frozen ms",
        type_ = "integer",
        json_path = ".status.frozenMilliseconds",
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
#[x_kube(validation = Rule::new("self == oldSelf").message("spec cannot be changed: make another CheckpointRequest"))]
#[x_kube(validation = Rule::new("self.after != 'DeletePod' || !has(self.containers) || size(self.containers) == 0").message("after: DeletePod takes a checkpoint of all containers: leave containers out"))]
pub struct CheckpointRequestSpec {
    /// Name of the pod, in the namespace of the request.
    #[schemars(schema_with = "schema::name")]
    pub pod_name: String,
    /// Names of containers. None: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::label_names")]
    pub containers: Vec<String>,
    /// Name of the CheckpointStore that keeps it.
    #[schemars(schema_with = "schema::name")]
    pub store: String,
    /// What becomes of the pod when the checkpoint is stored.
    #[serde(default)]
    pub after: After,
    /// How the data is compressed.
    #[serde(default)]
    pub compression: Compression,
    /// What becomes of TCP connections in the copy.
    #[serde(default)]
    pub tcp_connections: TcpConnections,
    /// Give up after this time; the pod then goes on as before.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: i32,
    /// Delete the request this long after its end. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub ttl_seconds: Option<i32>,
    /// What becomes of the stored data when the request is deleted.
    #[serde(default)]
    pub retention: Retention,
}

const fn default_timeout() -> i32 {
    1800
}

words! {
    /// What becomes of a pod after its checkpoint.
    After: LeaveRunning {
        /// It goes on.
        LeaveRunning,
        /// It stays frozen until the request is deleted, or a RestoreRequest has decided.
        KeepFrozen,
        /// It is deleted. Refused for a pod whose owner would start another one.
        DeletePod,
    }
}

words! {
    /// Compression of the data.
    Compression: Zstd {
        /// Zstandard, where it makes a block smaller.
        Zstd,
        /// It is not: for stores that are faster than the compression.
        None,
    }
}

words! {
    /// TCP connections of a checkpoint.
    TcpConnections: Close {
        /// They are closed in the copy.
        Close,
        /// They are kept, which only helps where the address is kept too.
        Established,
    }
}

words! {
    /// What becomes of stored data.
    Retention: Delete {
        /// It goes with the request.
        Delete,
        /// It stays, and is then the store's administrator's.
        Retain,
    }
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.claim) || has(self.claim)").message("a claim is not taken back"))]
pub struct CheckpointRequestStatus {
    /// The generation of the request that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::generation")]
    pub observed_generation: Option<i64>,
    /// Succeeded says the end; Scheduled, Frozen, Dumped and Uploaded the way there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Node of the pod, whose agent works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub node_name: Option<String>,
    /// UID of the pod: a later pod of that name is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uid")]
    pub pod_uid: Option<String>,
    /// When the agent was given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub completion_time: Option<Time>,
    /// Each container's result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub containers: Vec<ContainerCheckpoint>,
    /// Bytes that a restore reads, over all containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub size_bytes: Option<i64>,
    /// Bytes that the store took for it, what it had already left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub stored_bytes: Option<i64>,
    /// How long the pod stood still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub frozen_milliseconds: Option<i64>,
    /// How far the work under way is, now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What the agent knows of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceState>,
    /// Whose the frozen pod is. It is taken once, by an update that carries resourceVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
}

/// The result for one container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerCheckpoint {
    /// Name of the container.
    #[schemars(schema_with = "schema::label_name")]
    pub name: String,
    /// Name of its checkpoint in the store. Absent: it is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::checkpoint_id")]
    pub checkpoint_id: Option<String>,
    /// Digest of the checkpoint's manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::digest")]
    pub manifest_digest: Option<String>,
    /// Digest of the image that the container was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::digest")]
    pub image_digest: Option<String>,
    /// GPUs that it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 256))]
    pub gpus: Option<i32>,
    /// Bytes that a restore reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub size_bytes: Option<i64>,
    /// Why it could not be done, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::message")]
    pub message: Option<String>,
    /// The end of CRIU's log, if CRIU failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::log_tail")]
    pub criu_log_tail: Option<String>,
}

/// How far a piece of work is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Bytes done.
    #[schemars(schema_with = "schema::count")]
    pub done_bytes: i64,
    /// Bytes to do in all, as far as is known.
    #[schemars(schema_with = "schema::count")]
    pub total_bytes: i64,
    /// Seconds that the rest will take at the present rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub remaining_seconds: Option<i64>,
}

/// Whose a frozen pod is: either a RestoreRequest decides about it, or its agent has let it go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("a claim is made once"))]
#[x_kube(validation = Rule::new("has(self.restoreRequestName) == has(self.restoreRequestUid)").message("name and UID of a RestoreRequest go together"))]
pub struct Claim {
    /// The RestoreRequest whose decision counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub restore_request_name: Option<String>,
    /// Its UID. Both absent: the agent has let the pod run, and nobody can migrate from this checkpoint any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uid")]
    pub restore_request_uid: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1alpha1::testing::{accepts, accepts_update, refuses, refuses_update};

    fn request(spec: CheckpointRequestSpec) -> CheckpointRequest {
        CheckpointRequest::new("a", spec)
    }

    fn spec() -> CheckpointRequestSpec {
        serde_json::from_value(serde_json::json!({ "podName": "train-0", "store": "lab" }))
            .expect("the least that is needed")
    }

    #[test]
    fn defaults_leave_the_pod_as_it_is() {
        let spec = spec();
        assert_eq!(spec.after, After::LeaveRunning);
        assert_eq!(spec.retention, Retention::Delete);
        assert_eq!(spec.timeout_seconds, 1800);
        accepts(&request(spec));
    }

    #[test]
    fn spec_is_immutable() {
        let old = request(spec());
        accepts_update(&old, &old);
        let changes: [fn(&mut CheckpointRequestSpec); 4] = [
            |spec| spec.pod_name = "train-1".to_owned(),
            |spec| spec.after = After::KeepFrozen,
            |spec| spec.containers = vec!["main".to_owned()],
            |spec| spec.ttl_seconds = Some(1),
        ];
        for change in changes {
            let mut new = old.clone();
            change(&mut new.spec);
            refuses_update(&new, &old, "spec cannot be changed");
        }
        // The status may change.
        let mut new = old.clone();
        new.status = Some(CheckpointRequestStatus::default());
        accepts_update(&new, &old);
    }

    #[test]
    fn a_pod_that_is_deleted_is_taken_whole() {
        let with = |after, containers: &[&str]| {
            let containers = containers.iter().map(|name| (*name).to_owned()).collect();
            request(CheckpointRequestSpec {
                after,
                containers,
                ..spec()
            })
        };
        accepts(&with(After::DeletePod, &[]));
        accepts(&with(After::KeepFrozen, &["main"]));
        refuses(
            &with(After::DeletePod, &["main"]),
            "DeletePod takes a checkpoint of all",
        );
    }

    #[test]
    fn a_claim_is_made_once() {
        let with = |claim: Option<Claim>| {
            let mut request = request(spec());
            request.status = Some(CheckpointRequestStatus {
                claim,
                ..Default::default()
            });
            request
        };
        let claim = |name: Option<&str>, uid: Option<&str>| {
            Some(Claim {
                restore_request_name: name.map(str::to_owned),
                restore_request_uid: uid.map(str::to_owned),
            })
        };
        let (free, mine) = (with(None), with(claim(Some("move"), Some("u-1"))));
        let released = with(claim(None, None));
        accepts_update(&mine, &free);
        accepts_update(&released, &free);
        accepts_update(&mine, &mine);
        refuses_update(&released, &mine, "a claim is made once");
        refuses_update(&mine, &released, "a claim is made once");
        // What is taken away could be made again.
        for claimed in [&mine, &released] {
            refuses_update(&free, claimed, "a claim is not taken back");
            refuses_update(&request(spec()), claimed, "the status of a claimed");
        }
        accepts_update(&request(spec()), &free);
        refuses(&with(claim(Some("move"), None)), "go together");
        refuses(&with(claim(None, Some("u-1"))), "go together");
    }
}
