//! The definitions of the API, taken and enforced by the real API server.

use super::Stage;
use crate::ControlPlane;
use anyhow::{Context, Result, bail, ensure};
use rocferry_vm::source_root;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Installs them as people do: client-side.
pub(super) fn install(cluster: &ControlPlane) -> Result<()> {
    let dir = source_root().join("crds");
    let dir = dir.to_str().context("The path is no UTF-8")?;
    cluster.kubectl(&["apply", "-f", dir])?.ok()?;
    let established = [
        "wait",
        "--for=condition=Established",
        "crd",
        "--all",
        "--timeout=60s",
    ];
    cluster.kubectl(&established)?.ok().map(drop)
}

/// They can be applied again, and nothing in them is disputed: the API server says so in conditions.
pub(super) fn apply(stage: &Stage) -> Result<()> {
    let dir = source_root().join("crds");
    let dir = dir.to_str().context("The path is no UTF-8")?;
    let again = stage.cluster.kubectl(&["apply", "-f", dir])?.ok()?;
    for line in again.lines() {
        ensure!(
            line.ends_with("unchanged"),
            "Applied again, it is not the same: {line}"
        );
    }
    let strict = ["apply", "--dry-run=server", "--validate=strict", "-f", dir];
    stage.cluster.kubectl(&strict)?.ok()?;
    for crd in all(stage)? {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        for condition in crd["status"]["conditions"].as_array().into_iter().flatten() {
            let (kind, status) = (&condition["type"], &condition["status"]);
            let good = if kind == "NonStructuralSchema" {
                "False"
            } else {
                "True"
            };
            ensure!(status == good, "{name}: {condition}");
        }
    }
    // Everything of ours at once, and not in everybody's list.
    let listed =
        stage
            .cluster
            .kubectl(&["api-resources", "--categories=gpu-checkpoint", "-o", "name"])?;
    ensure!(
        listed.ok()?.lines().count() == 6,
        "Not all kinds are in the category"
    );
    Ok(())
}

/// Every rule refuses what it is for, in the words that it has.
pub(super) fn refusals(stage: &Stage) -> Result<()> {
    let mut seen = BTreeSet::new();
    for (object, change, message) in table() {
        let message = message.to_owned();
        let said = if change.is_null() {
            stage.apply(&object)?.refused()
        } else {
            stage.apply(&object)?.ok()?;
            let (sub, change) = match change.get("status") {
                Some(_) => (Some("status"), change),
                None => (None, change),
            };
            stage.patch(&object, sub, &change)?.refused()
        };
        let said = said.with_context(|| format!("\"{message}\" is not enforced: {object}"))?;
        ensure!(
            said.contains(&message),
            "Refused, but not with \"{message}\": {said}"
        );
        seen.insert(message);
    }
    claims(stage, &mut seen)?;
    let mut rules = BTreeSet::new();
    for crd in all(stage)? {
        messages(&crd, &mut rules);
    }
    let missing: Vec<&String> = rules.difference(&seen).collect();
    if !missing.is_empty() {
        bail!("Rules that nothing here breaks: {missing:#?}");
    }
    ensure!(seen == rules, "Rules that are no longer there: {seen:#?}");
    Ok(())
}

/// Rules about what may follow on what in a status: what was decided is neither changed nor forgotten.
fn claims(stage: &Stage, seen: &mut BTreeSet<String>) -> Result<()> {
    let mut refused = |object: &Value, change: Value, message: &str| -> Result<()> {
        let said = stage.patch(object, Some("status"), &change)?.refused();
        let said = said.with_context(|| format!("\"{message}\" is not enforced: {change}"))?;
        ensure!(
            said.contains(message),
            "Refused, but not with \"{message}\": {said}"
        );
        seen.insert(message.to_owned());
        Ok(())
    };
    let forgotten = json!({ "status": null });
    let claim = |name: &str| json!({ "status": { "claim": { "restoreRequestName": name, "restoreRequestUid": name } } });
    let released = json!({ "status": { "claim": {} } });
    for (name, first) in [("claimed", claim("a")), ("released", released)] {
        let object = checkpoint(name, json!({}));
        stage.apply(&object)?.ok()?;
        stage.patch(&object, Some("status"), &first)?.ok()?;
        refused(&object, claim("b"), "a claim is made once")?;
        let none = json!({ "status": { "claim": null } });
        refused(&object, none, "a claim is not taken back")?;
        refused(
            &object,
            forgotten.clone(),
            "the status of a claimed checkpoint stays",
        )?;
        stage.patch(&object, Some("status"), &first)?.ok()?;
    }
    let decide = |word: &str| json!({ "status": { "decision": word } });
    for (made, other) in [("Committed", "Aborted"), ("Aborted", "Committed")] {
        let object = restore(&format!("is-{}", made.to_lowercase()), json!({}));
        stage.apply(&object)?.ok()?;
        stage
            .patch(&object, Some("status"), &decide("Undecided"))?
            .ok()?;
        stage.patch(&object, Some("status"), &forgotten)?.ok()?;
        stage.patch(&object, Some("status"), &decide(made))?.ok()?;
        for change in [
            decide(other),
            decide("Undecided"),
            json!({ "status": { "decision": null } }),
        ] {
            refused(&object, change, "a decision is made once")?;
        }
        refused(
            &object,
            forgotten.clone(),
            "the status of a decided request stays",
        )?;
        stage.patch(&object, Some("status"), &decide(made))?.ok()?;
    }
    Ok(())
}

fn all(stage: &Stage) -> Result<Vec<Value>> {
    let list = stage
        .cluster
        .kubectl(&["get", "crd", "-o", "json"])?
        .json()?;
    let items = list["items"].as_array().context("No list")?;
    let ours = |crd: &&Value| crd["spec"]["group"] == "rocferry.dev";
    let ours: Vec<Value> = items.iter().filter(ours).cloned().collect();
    ensure!(ours.len() == 6, "{} kinds", ours.len());
    Ok(ours)
}

fn messages(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "x-kubernetes-validations" {
                    let rules = value.as_array().into_iter().flatten();
                    found.extend(
                        rules.filter_map(|rule| rule["message"].as_str().map(str::to_owned)),
                    );
                } else {
                    messages(value, found);
                }
            }
        }
        _ => {}
    }
}

fn object(kind: &str, name: &str, spec: impl Into<Value>) -> Value {
    let spec = spec.into();
    json!({ "apiVersion": "rocferry.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

/// `base` with the fields of `more`.
fn with(mut base: Value, more: Value) -> Value {
    if let (Some(base), Value::Object(more)) = (base.as_object_mut(), more) {
        base.extend(more);
    }
    base
}

fn checkpoint(name: &str, more: Value) -> Value {
    let least = json!({ "podName": "train-0", "store": "lab" });
    object("CheckpointRequest", name, with(least, more))
}

fn restore(name: &str, more: Value) -> Value {
    let least = json!({ "from": { "checkpointRequest": { "name": "nightly" } } });
    object("RestoreRequest", name, with(least, more))
}

fn store(name: &str, more: Value) -> Value {
    let least = json!({ "url": "s3://bucket/lab", "keySecret": { "name": "key" },
        "allowedNamespaces": { "from": "All" } });
    object("CheckpointStore", name, with(least, more))
}

fn schedule(name: &str, more: Value) -> Value {
    let least = json!({ "selector": { "matchLabels": { "app": "train" } },
        "intervalSeconds": 600, "store": "lab" });
    object("CheckpointSchedule", name, with(least, more))
}

/// An object, a change to it if it is good by itself, and the message of the rule that refuses.
fn table() -> Vec<(Value, Value, &'static str)> {
    let none = || Value::Null;
    let changed = |spec: Value| json!({ "spec": spec });
    let template = |template: Value| json!({ "podTemplate": template });
    let image = json!({ "store": "lab", "checkpointIds": ["20261201t093000-0123456789ab"] });
    let other = json!({ "checkpointRequest": { "name": "nightly", "namespace": "other" } });
    let both = json!({ "checkpointRequest": { "name": "nightly" }, "image": image });
    let grant = object(
        "CheckpointGrant",
        "x",
        json!({ "checkpoints": "Named", "to": [{ "namespace": "b" }] }),
    );
    let evidence = json!({ "status": { "sourceEvidence": "Gone" } });
    let half = json!({ "status": { "claim": { "restoreRequestName": "a" } } });
    vec![
        (
            grant,
            none(),
            "checkpointRequests goes with checkpoints: Named",
        ),
        (
            checkpoint("x", json!({ "after": "DeletePod", "containers": ["main"] })),
            none(),
            "after: DeletePod takes a checkpoint of all containers: leave containers out",
        ),
        (
            checkpoint("immutable", json!({})),
            changed(json!({ "after": "KeepFrozen" })),
            "spec cannot be changed: make another CheckpointRequest",
        ),
        (
            checkpoint("half", json!({})),
            half,
            "name and UID of a RestoreRequest go together",
        ),
        (
            schedule("x", json!({ "timeoutSeconds": 601 })),
            none(),
            "timeoutSeconds cannot be longer than intervalSeconds",
        ),
        (
            schedule("x", json!({ "selector": { "matchLabels": {} } })),
            none(),
            "a selector without labels would take every pod",
        ),
        (
            object(
                "CheckpointStore",
                "x",
                json!({ "url": "s3://bucket/lab", "allowedNamespaces": { "from": "All" } }),
            ),
            none(),
            "encryption: Required needs keySecret",
        ),
        (
            store(
                "x",
                json!({ "url": "file:///srv", "s3": { "region": "r" } }),
            ),
            none(),
            "s3 is for URLs that begin with s3://",
        ),
        (
            store("immutable", json!({})),
            changed(json!({ "url": "s3://bucket/other" })),
            "url cannot be changed: make another CheckpointStore",
        ),
        (
            store("x", json!({ "allowedNamespaces": { "from": "Names" } })),
            none(),
            "names goes with from: Names",
        ),
        (
            store("x", json!({ "allowedNamespaces": { "from": "Selector" } })),
            none(),
            "selector goes with from: Selector",
        ),
        (
            object("GpuNode", "x", json!({ "nodeName": "y" })),
            none(),
            "a GpuNode has the name of its node",
        ),
        (
            object("GpuNode", "immutable", json!({ "nodeName": "immutable" })),
            changed(json!({ "nodeName": "other" })),
            "a GpuNode stays with its node",
        ),
        (
            restore("immutable", json!({})),
            changed(json!({ "dryRun": true })),
            "spec cannot be changed: make another RestoreRequest",
        ),
        (
            object(
                "RestoreRequest",
                "x",
                json!({ "from": { "image": image }, "sourcePolicy": "Fence" }),
            ),
            none(),
            "sourcePolicy: Fence needs from.checkpointRequest: an image has no pod to move",
        ),
        (
            object(
                "RestoreRequest",
                "x",
                json!({ "from": other, "sourcePolicy": "Fence" }),
            ),
            none(),
            "sourcePolicy: Fence moves within a namespace: leave from.checkpointRequest.namespace out",
        ),
        (
            restore("x", json!({ "mode": "StopFirst" })),
            none(),
            "mode: StopFirst stops a source: set sourcePolicy: Fence",
        ),
        (
            restore("x", json!({ "fence": "BestEffort" })),
            none(),
            "fence is about the source: set sourcePolicy: Fence",
        ),
        (
            object("RestoreRequest", "x", json!({ "from": both })),
            none(),
            "give exactly one of checkpointRequest and image",
        ),
        (
            restore(
                "x",
                json!({ "placement": { "nodeName": "a", "nodeSelector": { "b": "c" } } }),
            ),
            none(),
            "give nodeName or nodeSelector, not both",
        ),
        (
            restore(
                "x",
                template(json!({ "labels": { "rocferry.dev/x": "y" } })),
            ),
            none(),
            "labels of rocferry.dev are the operator's",
        ),
        (
            restore(
                "x",
                template(json!({ "annotations": { "org.criu.config": "y" } })),
            ),
            none(),
            "annotations of rocferry.dev and org.criu are the operator's",
        ),
        (
            restore(
                "x",
                template(
                    json!({ "tolerations": [{ "key": "a", "operator": "Exists", "value": "b" }] }),
                ),
            ),
            none(),
            "operator: Exists takes no value",
        ),
        (
            restore("evidence", json!({})),
            evidence,
            "sourceEvidence follows the decision Committed",
        ),
    ]
}
