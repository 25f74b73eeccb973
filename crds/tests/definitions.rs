//! The definitions as a whole: written down as they are, small, bounded, and in the conventions of Kubernetes' APIs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rocferry_crds::{Definition, definitions, reference};
use serde_json::Value;

/// `kubectl apply` keeps a copy of the object in an annotation, and annotations end here.
const MAX_APPLY_BYTES: usize = 262_144;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn all() -> Vec<Definition> {
    definitions().expect("definitions")
}

fn assert_current(path: &Path, content: &str) {
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let name = path.display();
    assert!(
        written == content,
        "{name} is out of date: run `cargo xtask crds`"
    );
}

#[test]
fn files_are_current() {
    for definition in all() {
        let path = root().join("crds").join(definition.file_name());
        assert_current(&path, &definition.yaml().expect("YAML"));
    }
    assert_current(&root().join("docs/api.md"), &reference(&all()));
}

#[test]
fn no_other_files_are_installed() {
    let names: HashSet<String> = all().iter().map(Definition::file_name).collect();
    for entry in std::fs::read_dir(root().join("crds")).expect("crds/") {
        let name = entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned();
        if [".yaml", ".yml", ".json"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            assert!(names.contains(&name), "crds/{name} is no definition");
        }
    }
}

#[test]
fn the_files_say_what_the_definitions_say() {
    for definition in all() {
        let yaml = definition.yaml().expect("YAML");
        let read: Value = serde_saphyr::from_str(&yaml).expect("YAML that can be read");
        assert!(equal(&read, &definition.resource), "{}", definition.kind);
    }
}

/// Numbers of the same value are the same, however they are written.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

#[test]
fn each_can_be_applied_by_the_client() {
    for definition in all() {
        let json = definition.resource.to_string();
        assert!(
            json.len() < MAX_APPLY_BYTES,
            "{}: {} bytes",
            definition.kind,
            json.len()
        );
        assert!(
            definition.yaml().expect("YAML").len() < MAX_APPLY_BYTES,
            "{}",
            definition.kind
        );
    }
}

#[test]
fn names_follow_the_conventions() {
    let mut short_names = HashSet::new();
    for definition in all() {
        let names = &definition.resource["spec"]["names"];
        assert_eq!(names["categories"], serde_json::json!(["gpu-checkpoint"]));
        let short = names["shortNames"][0]
            .as_str()
            .expect("a short name")
            .to_owned();
        assert!(short_names.insert(short), "{}", definition.kind);
        let version = &definition.resource["spec"]["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert!(
            version["additionalPrinterColumns"].is_array(),
            "{}",
            definition.kind
        );
    }
}

/// Every schema below an object's, with its path.
fn walk<'a>(schema: &'a Value, path: &str, found: &mut Vec<(String, &'a Value)>) {
    found.push((path.to_owned(), schema));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        walk(field, &format!("{path}.{name}"), found);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            walk(&schema[key], &format!("{path}{mark}"), found);
        }
    }
}

fn fields(definition: &Definition) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for part in ["spec", "status"] {
        let schema = &definition.schema()["properties"][part];
        if schema.is_object() {
            walk(schema, &format!("{}.{part}", definition.kind), &mut found);
        }
    }
    found
        .into_iter()
        .map(|(path, schema)| (path, schema.clone()))
        .collect()
}

/// What is wrong with a field's schema.
fn fault(schema: &Value) -> Option<&'static str> {
    let number = |key: &str| schema[key].is_number();
    match schema["type"].as_str() {
        Some("string") if !(number("maxLength") || schema["enum"].is_array()) => {
            Some("no maxLength")
        }
        Some("array") if !number("maxItems") => Some("no maxItems"),
        Some("array") if !schema["x-kubernetes-list-type"].is_string() => Some("no list type"),
        Some("integer") if !(number("minimum") && number("maximum")) => Some("no bounds"),
        Some("integer") if schema["format"] != "int32" && schema["format"] != "int64" => {
            Some("a format that Kubernetes does not know")
        }
        Some("object")
            if schema["additionalProperties"].is_object() && !number("maxProperties") =>
        {
            Some("no maxProperties")
        }
        Some("object")
            if !(schema["properties"].is_object()
                || schema["additionalProperties"].is_object()) =>
        {
            Some("an object of anything")
        }
        Some("string" | "array" | "integer" | "object" | "boolean") => None,
        _ => Some("a type that is not ours"),
    }
    .or_else(|| schema["nullable"].is_boolean().then_some("nullable"))
    .or_else(|| {
        schema["x-kubernetes-preserve-unknown-fields"]
            .is_boolean()
            .then_some("open")
    })
}

#[test]
fn everything_is_bounded() {
    for definition in all() {
        for (path, schema) in fields(&definition) {
            assert_eq!(fault(&schema), None, "{path}: {schema}");
        }
    }
}

#[test]
fn a_missing_bound_is_noticed() {
    use serde_json::json;
    let bounded = json!({ "type": "string", "maxLength": 1 });
    for (schema, expected) in [
        (json!({ "type": "string" }), Some("no maxLength")),
        (bounded.clone(), None),
        (
            json!({ "type": "array", "items": bounded }),
            Some("no maxItems"),
        ),
        (
            json!({ "type": "integer", "format": "int32" }),
            Some("no bounds"),
        ),
        (
            json!({ "type": "integer", "format": "uint32", "minimum": 0, "maximum": 1 }),
            Some("a format that Kubernetes does not know"),
        ),
        (json!({ "type": "number" }), Some("a type that is not ours")),
        (
            json!({ "type": "boolean", "nullable": true }),
            Some("nullable"),
        ),
    ] {
        assert_eq!(fault(&schema), expected, "{schema}");
    }
}

#[test]
fn every_field_is_described_and_every_word_is_explained() {
    for definition in all() {
        for (path, schema) in fields(&definition) {
            if path.ends_with("[]") || path.ends_with("{}") {
                continue;
            }
            let description = schema["description"].as_str().unwrap_or_default();
            assert!(!description.is_empty(), "{path}");
            for word in schema["enum"].as_array().into_iter().flatten() {
                let word = word.as_str().expect("a word");
                assert!(description.contains(&format!("{word}: ")), "{path}: {word}");
                assert!(
                    word.starts_with(|first: char| first.is_ascii_uppercase()),
                    "{path}: {word}"
                );
            }
        }
    }
}

#[test]
fn rules_have_messages_and_requests_are_immutable() {
    for definition in all() {
        let mut rules = Vec::new();
        for (path, schema) in fields(&definition) {
            for rule in schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                assert!(rule["message"].is_string(), "{path}: {rule}");
                rules.push((
                    path.clone(),
                    rule["rule"].as_str().expect("a rule").to_owned(),
                ));
            }
        }
        if definition.kind.ends_with("Request") {
            let path = format!("{}.spec", definition.kind);
            assert!(
                rules.contains(&(path, "self == oldSelf".to_owned())),
                "{}",
                definition.kind
            );
        }
    }
}
