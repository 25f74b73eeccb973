//! The reference of the API for people, from the schemas.

use std::fmt::Write;

use serde_json::Value;

use crate::Definition;

/// Writes `docs/api.md`.
#[must_use]
pub fn reference(definitions: &[Definition]) -> String {
    let mut out = String::from(
        "# API reference\n\n\
         Written by `cargo xtask crds` from `crds/src`. Group `rocferry.dev`, version `v1alpha1`. `kubectl explain KIND.spec` shows the same.\n\n\
         Names in the first column are paths; `[]` is each item of a list. Bold: has to be given. Times are RFC 3339, bytes whole numbers.\n",
    );
    let _ = writeln!(
        out,
        "\n| kind | short | scope | what it is |\n|---|---|---|---|"
    );
    for definition in definitions {
        let names = &definition.resource["spec"]["names"];
        let _ = writeln!(
            out,
            "| [{kind}](#{anchor}) | `{short}` | {scope} | {what} |",
            kind = definition.kind,
            anchor = definition.kind.to_lowercase(),
            short = text(&names["shortNames"][0]),
            scope = text(&definition.resource["spec"]["scope"]),
            what = text(&definition.schema()["description"]),
        );
    }
    for definition in definitions {
        write_kind(&mut out, definition);
    }
    out
}

fn write_kind(out: &mut String, definition: &Definition) {
    let schema = definition.schema();
    let _ = writeln!(
        out,
        "\n## {}\n\n{}",
        definition.kind,
        text(&schema["description"])
    );
    let version = &definition.resource["spec"]["versions"][0];
    let paths: Vec<String> = list(&version["selectableFields"])
        .map(|field| format!("`{}`", text(&field["jsonPath"]).trim_start_matches('.')))
        .collect();
    if !paths.is_empty() {
        let _ = writeln!(out, "\nField selectors: {}.", paths.join(", "));
    }
    for part in ["spec", "status"] {
        let schema = &schema["properties"][part];
        if schema.is_null() {
            continue;
        }
        let mut rules = Vec::new();
        collect_rules(schema, part, &mut rules);
        let _ = writeln!(
            out,
            "\n### {}: {part}\n\n{}\n",
            definition.kind,
            text(&schema["description"])
        );
        let _ = writeln!(out, "| field | type | meaning |\n|---|---|---|");
        write_fields(out, schema, "");
        if !rules.is_empty() {
            let _ = writeln!(out, "\nRules:\n");
            for (path, message) in rules {
                let _ = writeln!(out, "- `{path}`: {message}");
            }
        }
    }
}

fn write_fields(out: &mut String, schema: &Value, prefix: &str) {
    let required: Vec<&str> = list(&schema["required"])
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let bold = if required.contains(&name.as_str()) {
            "**"
        } else {
            ""
        };
        let mut meaning = text(&field["description"]).replace(['\n', '|'], " ");
        if !field["default"].is_null() {
            let _ = write!(
                meaning,
                " Default: `{}`.",
                field["default"].to_string().trim_matches('"')
            );
        }
        let _ = writeln!(
            out,
            "| {bold}`{path}`{bold} | {} | {} |",
            kind(field),
            meaning.trim()
        );
        write_fields(out, field, &format!("{path}."));
        write_fields(out, &field["items"], &format!("{path}[]."));
    }
}

/// Type and bounds, as short as possible.
fn kind(field: &Value) -> String {
    let bounds = |from: &str, to: &str| {
        let least = field[from].as_f64().unwrap_or(0.0);
        field[to].as_f64().map(|most| format!("{least} to {most}"))
    };
    match text(&field["type"]) {
        "string" if field["enum"].is_array() => {
            let words = list(&field["enum"]).map(|word| format!("`{}`", text(word)));
            words.collect::<Vec<_>>().join(" ")
        }
        "string" if field["format"] == "date-time" => "time".to_owned(),
        "string" => match field["maxLength"].as_f64() {
            Some(most) => format!("text, up to {most}"),
            None => "text".to_owned(),
        },
        "integer" => bounds("minimum", "maximum").unwrap_or_else(|| "integer".to_owned()),
        "array" => {
            let items = match text(&field["items"]["type"]) {
                "object" => "objects".to_owned(),
                _ => kind(&field["items"]),
            };
            match bounds("minItems", "maxItems") {
                Some(bounds) => format!("list of {bounds}: {items}"),
                None => format!("list: {items}"),
            }
        }
        "object" if field["additionalProperties"].is_object() => {
            let most = field["maxProperties"].as_f64().unwrap_or(f64::INFINITY);
            format!("map of up to {most}")
        }
        other => other.to_owned(),
    }
}

fn collect_rules<'a>(schema: &'a Value, path: &str, rules: &mut Vec<(String, &'a str)>) {
    for rule in list(&schema["x-kubernetes-validations"]) {
        rules.push((path.to_owned(), text(&rule["message"])));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        collect_rules(field, &format!("{path}.{name}"), rules);
        collect_rules(&field["items"], &format!("{path}.{name}[]"), rules);
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
