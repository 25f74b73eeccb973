//! `CheckpointGrant`: a namespace lets others restore its checkpoints.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::words::words;

/// Who may restore what. It is an object of the namespace that gives.
#[derive(Clone, Debug, PartialEq, CustomResource, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "rocferry.dev",
    version = "v1alpha1",
    kind = "CheckpointGrant",
    namespaced,
    derive = "PartialEq",
    shortname = "ckptgrant",
    category = "gpu-checkpoint",
    doc = "Lets other namespaces restore checkpoints of the namespace that it is in: they then read the memory of its pods.",
    printcolumn(
        name = "Checkpoints",
        type_ = "string",
        json_path = ".spec.checkpoints"
    ),
    printcolumn(name = "To", type_ = "string", json_path = ".spec.to[*].namespace"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.checkpoints == 'Named') == has(self.checkpointRequests)").message("checkpointRequests goes with checkpoints: Named"))]
pub struct CheckpointGrantSpec {
    /// Which checkpoints.
    pub checkpoints: GrantedCheckpoints,
    /// Names of CheckpointRequests, whose checkpoints these are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names")]
    pub checkpoint_requests: Vec<String>,
    /// To whom.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["namespace".into()]))]
    pub to: Vec<Grantee>,
}

words! {
    /// Which checkpoints are given.
    GrantedCheckpoints {
        /// All of the namespace, later ones too.
        All,
        /// Those of some CheckpointRequests.
        Named,
    }
}

/// Who gets them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Grantee {
    /// Name of the namespace.
    #[schemars(schema_with = "schema::label_name")]
    pub namespace: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::v1alpha1::testing::{accepts, refuses};

    fn grant(spec: Value) -> CheckpointGrant {
        CheckpointGrant::new("to-b", serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn names_go_with_named() {
        let to = json!([{ "namespace": "b" }]);
        accepts(&grant(json!({ "to": to, "checkpoints": "All" })));
        accepts(&grant(
            json!({ "to": to, "checkpoints": "Named", "checkpointRequests": ["a"] }),
        ));
        refuses(
            &grant(json!({ "to": to, "checkpoints": "Named" })),
            "goes with checkpoints: Named",
        );
        let all = json!({ "to": to, "checkpoints": "All", "checkpointRequests": ["a"] });
        refuses(&grant(all), "goes with checkpoints: Named");
    }
}
