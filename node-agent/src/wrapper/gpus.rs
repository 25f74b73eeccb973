//! Which GPUs a new container sees.

use rocferry_topology::RenderMinor;
use serde_json::{Map, Value};

/// Major number of render nodes.
const DRM_MAJOR: i64 = 226;

/// KFD shows a container the GPUs whose render node its device cgroup lets it read and write. That is what this
/// specification's rules say; a later rule changes what earlier ones have said.
pub(crate) fn sees(spec: &Map<String, Value>, minor: RenderMinor) -> bool {
    let linux = spec.get("linux");
    let rules = linux
        .and_then(|linux| linux.get("resources"))
        .and_then(|resources| resources.get("devices"));
    let (mut read, mut write) = (false, false);
    for rule in rules.and_then(Value::as_array).into_iter().flatten() {
        let number = |name| rule.get(name).and_then(Value::as_i64);
        let matches =
            |name, wanted| number(name).is_none_or(|number| number < 0 || number == wanted);
        let kind = rule.get("type").and_then(Value::as_str).unwrap_or("a");
        let is_about_it = matches!(kind, "a" | "c" | "")
            && matches("major", DRM_MAJOR)
            && matches("minor", i64::from(minor.get()));
        if !is_about_it {
            continue;
        }
        let allow = rule.get("allow").and_then(Value::as_bool).unwrap_or(false);
        let access = rule.get("access").and_then(Value::as_str);
        let access = access.filter(|access| !access.is_empty()).unwrap_or("rwm");
        if access.contains('r') {
            read = allow;
        }
        if access.contains('w') {
            write = allow;
        }
    }
    read && write
}

#[cfg(test)]
mod tests {
    use super::super::bundle::Bundle;
    use super::*;

    fn seen(rules: &str) -> Vec<u32> {
        let spec = format!(r#"{{"linux":{{"resources":{{"devices":{rules}}}}}}}"#);
        let bundle = Bundle::of(&spec);
        let minors = 128..132;
        minors
            .filter(|minor| sees(bundle.spec().content(), RenderMinor(*minor)))
            .collect()
    }

    #[test]
    fn rules_are_read_in_order() {
        assert!(seen("[]").is_empty());
        assert!(seen(r#"[{"allow":false,"access":"rwm"}]"#).is_empty());
        let given = r#"[{"allow":false,"access":"rwm"},{"allow":true,"type":"c","major":226,"minor":129,"access":"rwm"},
            {"allow":true,"type":"c","major":226,"minor":130,"access":"r"},{"allow":true,"type":"b","major":226,"minor":131}]"#;
        assert_eq!(seen(given), [129]);
        assert_eq!(seen(r#"[{"allow":true,"access":"rwm"}]"#).len(), 4);
        let all_but_one = r#"[{"allow":true,"type":"a","major":-1,"minor":-1},{"allow":false,"type":"c","major":226,"minor":128,"access":"w"}]"#;
        assert_eq!(seen(all_but_one), [129, 130, 131]);
        assert!(!sees(Bundle::of("{}").spec().content(), RenderMinor(128)));
    }
}
