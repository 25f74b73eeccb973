//! `CheckpointStore`: where checkpoints are kept, named by an administrator.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::words::words;

/// A store, and who may use it. Tenants name it and never say where it is.
#[derive(Clone, Debug, PartialEq, CustomResource, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "rocferry.dev",
    version = "v1alpha1",
    kind = "CheckpointStore",
    status = "CheckpointStoreStatus",
    derive = "PartialEq",
    shortname = "ckptstore",
    category = "gpu-checkpoint",
    doc = "A place for checkpoints: its URL, credentials and keys, which namespaces may use it, and how much.",
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.url"),
    printcolumn(
        name = "Namespaces",
        type_ = "string",
        json_path = ".spec.allowedNamespaces.from"
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
        name = "Encryption",
        type_ = "string",
        json_path = ".spec.encryption",
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
#[x_kube(validation = Rule::new("self.encryption != 'Required' || has(self.keySecret)").message("encryption: Required needs keySecret"))]
#[x_kube(validation = Rule::new("!has(self.s3) || self.url.startsWith('s3://')").message("s3 is for URLs that begin with s3://"))]
pub struct CheckpointStoreSpec {
    /// Where it is: `file:///PATH` (on every node the same), `s3://BUCKET/PREFIX` or `oci://HOST/REPOSITORY`. It cannot be changed:
    /// what is stored would be lost from sight.
    #[schemars(
        length(max = 1024),
        regex(pattern = r"^(file:///|s3://[a-z0-9]|oci://[a-zA-Z0-9])[^\s@?#]*$")
    )]
    #[x_kube(validation = Rule::new("self == oldSelf").message("url cannot be changed: make another CheckpointStore"))]
    pub url: String,
    /// Where S3 is, if not at Amazon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3>,
    /// Secret of the release's namespace with the credentials. Absent: those of the agents' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<SecretName>,
    /// Whether data is sealed.
    #[serde(default)]
    pub encryption: Encryption,
    /// Secret of the release's namespace with the key that wraps data keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_secret: Option<SecretName>,
    /// Whether checkpoints without the signature of an agent are restored.
    #[serde(default)]
    pub unsigned: Unsigned,
    /// Which namespaces may use it.
    pub allowed_namespaces: AllowedNamespaces,
    /// How much each of them may keep. Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// An S3 service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3 {
    /// Its address, as in https://s3.example.com:9000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = r"^https?://[^\s@?#]+$"))]
    pub endpoint: Option<String>,
    /// Its region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::short_text")]
    pub region: Option<String>,
}

/// A Secret of the namespace in which rocferry is installed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretName {
    /// Its name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
}

words! {
    /// Whether data is sealed.
    Encryption: Required {
        /// It is, with a key for each namespace.
        Required,
        /// It is not: who reads the store reads the memory of all pods.
        Off,
    }
}

words! {
    /// What is done with checkpoints that no agent has signed.
    Unsigned: Refuse {
        /// They are not restored.
        Refuse,
        /// They are. A checkpoint is code that runs with what it was dumped with.
        Accept,
    }
}

/// Which namespaces may use a store.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.from == 'Names') == has(self.names)").message("names goes with from: Names"))]
#[x_kube(validation = Rule::new("(self.from == 'Selector') == has(self.selector)").message("selector goes with from: Selector"))]
pub struct AllowedNamespaces {
    /// How they are told.
    pub from: From,
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::label_names")]
    pub names: Vec<String>,
    /// Labels that they have, all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub selector: BTreeMap<String, String>,
}

words! {
    /// How namespaces are told.
    From {
        /// All of them.
        All,
        /// By name.
        Names,
        /// By labels.
        Selector,
    }
}

/// How much a namespace may keep in a store.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// Bytes stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub bytes: Option<i64>,
    /// Checkpoints, those of containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub checkpoints: Option<i32>,
}

/// How it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStoreStatus {
    /// The generation of the object that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::generation")]
    pub observed_generation: Option<i64>,
    /// Ready: it can be reached, and its credentials and keys do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::v1alpha1::testing::{accepts, accepts_update, refuses, refuses_update};

    fn store(change: impl FnOnce(&mut Value)) -> CheckpointStore {
        let mut spec = json!({ "url": "s3://bucket/lab", "keySecret": { "name": "key" },
            "allowedNamespaces": { "from": "All" } });
        change(&mut spec);
        CheckpointStore::new("lab", serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn sealing_needs_a_key() {
        accepts(&store(|_| ()));
        let keyless = |spec: &mut Value| {
            spec.as_object_mut().expect("an object").remove("keySecret");
        };
        refuses(&store(keyless), "needs keySecret");
        accepts(&store(|spec| {
            keyless(spec);
            spec["encryption"] = json!("Off");
        }));
    }

    #[test]
    fn s3_is_for_s3() {
        let s3 = json!({ "endpoint": "https://s3.example.com" });
        accepts(&store(|spec| spec["s3"] = s3.clone()));
        refuses(
            &store(|spec| {
                spec["s3"] = s3.clone();
                spec["url"] = json!("file:///srv/checkpoints");
            }),
            "begin with s3://",
        );
    }

    #[test]
    fn namespaces_are_told_in_one_way() {
        let with = |allowed: Value| store(|spec| spec["allowedNamespaces"] = allowed);
        let selector = json!({ "team": "a" });
        accepts(&with(json!({ "from": "Names", "names": ["a"] })));
        accepts(&with(json!({ "from": "Selector", "selector": selector })));
        refuses(&with(json!({ "from": "Names" })), "names goes with");
        refuses(
            &with(json!({ "from": "All", "names": ["a"] })),
            "names goes with",
        );
        refuses(&with(json!({ "from": "Selector" })), "selector goes with");
        let both = json!({ "from": "Names", "names": ["a"], "selector": selector });
        refuses(&with(both), "selector goes with");
    }

    #[test]
    fn url_is_immutable_and_the_rest_is_not() {
        let old = store(|_| ());
        let quota = store(|spec| spec["quota"] = json!({ "bytes": 1 }));
        accepts_update(&quota, &old);
        let elsewhere = store(|spec| spec["url"] = json!("s3://bucket/other"));
        refuses_update(&elsewhere, &old, "url cannot be changed");
    }
}
