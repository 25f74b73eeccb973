//! The definitions of all kinds, as they are installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::v1alpha1 as api;
use crate::yaml::{YamlError, to_yaml};

/// One kind's definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The kind.
    pub kind: String,
    /// The CustomResourceDefinition.
    pub resource: Value,
}

impl Definition {
    fn of<T: CustomResourceExt>() -> Result<Self, serde_json::Error> {
        let crd: CustomResourceDefinition = T::crd();
        let kind = crd.spec.names.kind.clone();
        let mut resource = serde_json::to_value(crd)?;
        tidy(&mut resource);
        Ok(Self { kind, resource })
    }

    /// Name of its file: `checkpointrequests.yaml`.
    #[must_use]
    pub fn file_name(&self) -> String {
        let plural = self.resource["spec"]["names"]["plural"].as_str();
        format!("{}.yaml", plural.unwrap_or(&self.kind))
    }

    /// Its file.
    ///
    /// # Errors
    /// [`YamlError`], which would be a defect of this crate.
    pub fn yaml(&self) -> Result<String, YamlError> {
        let yaml = to_yaml(&self.resource)?;
        Ok(format!(
            "# Written by `cargo xtask crds` from crds/src.\n{yaml}"
        ))
    }

    /// The schema of its objects.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.resource["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }
}

/// All kinds, by name.
///
/// # Errors
/// A definition that has no form in JSON, which would be a defect of this crate.
pub fn definitions() -> Result<Vec<Definition>, serde_json::Error> {
    Ok(vec![
        Definition::of::<api::CheckpointGrant>()?,
        Definition::of::<api::CheckpointRequest>()?,
        Definition::of::<api::CheckpointSchedule>()?,
        Definition::of::<api::CheckpointStore>()?,
        Definition::of::<api::GpuNode>()?,
        Definition::of::<api::RestoreRequest>()?,
    ])
}

/// Meanings of the words of a field, by enum.
const WORDS: &[&[(&str, &str)]] = &[
    api::After::MEANINGS,
    api::Check::MEANINGS,
    api::Compression::MEANINGS,
    api::ConditionStatus::MEANINGS,
    api::Decision::MEANINGS,
    api::Encryption::MEANINGS,
    api::Feature::MEANINGS,
    api::Fence::MEANINGS,
    api::FenceKind::MEANINGS,
    api::From::MEANINGS,
    api::GrantedCheckpoints::MEANINGS,
    api::Mode::MEANINGS,
    api::OnContainerRestart::MEANINGS,
    api::OnNodeLoss::MEANINGS,
    api::RestoreOnNodeLoss::MEANINGS,
    api::Retention::MEANINGS,
    api::SourceEvidence::MEANINGS,
    api::SourcePolicy::MEANINGS,
    api::SourceState::MEANINGS,
    api::TargetOrigin::MEANINGS,
    api::TargetState::MEANINGS,
    api::TcpConnections::MEANINGS,
    api::TolerationEffect::MEANINGS,
    api::TolerationOperator::MEANINGS,
    api::Unsigned::MEANINGS,
];

/// What the derived definition lacks or has too much of.
///
/// `nullable`: a field is there or absent, never null; server-side apply treats the two differently. Words: their meaning goes into
/// the description, where `kubectl explain` shows it.
fn tidy(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(fields) => {
            if fields.contains_key("type") {
                fields.remove("nullable");
            }
            if let Some(words) = fields.get_mut("enum").and_then(Value::as_array_mut) {
                words.retain(|word| !word.is_null());
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                if let Some(meanings) = meanings(&words) {
                    let before = fields.get("description").and_then(Value::as_str);
                    let text = format!("{} {meanings}", before.unwrap_or_default());
                    fields.insert("description".to_owned(), text.trim().into());
                }
            }
            fields.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

fn meanings(words: &[&str]) -> Option<String> {
    let same = |known: &&&[(&str, &str)]| known.iter().map(|(word, _)| word).eq(words);
    let known = WORDS.iter().find(same)?;
    let sentences = known
        .iter()
        .map(|(word, meaning)| format!("{word}: {}", meaning.trim()));
    Some(sentences.collect::<Vec<_>>().join(" "))
}
