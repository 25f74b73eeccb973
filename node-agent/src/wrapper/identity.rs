//! Whose container a bundle is for.

use std::collections::HashMap;
use std::ffi::OsStr;

use super::bundle::Bundle;
use crate::ticket::Key;

/// Annotation of a pod that its containers are to be restored. Its value is the request's name.
pub(crate) const MARK: &str = "rocferry.dev/restore";

/// What a bundle and the command line say about a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Under which its ticket or fence may lie, the pod's first.
    pub(crate) keys: Vec<Key>,
    /// It must not start other than from a checkpoint.
    pub(crate) marked: bool,
}

impl Identity {
    /// Reads it. The pod's own container, which holds its namespaces, is nobody's to restore: it starts as always.
    pub(crate) fn of(bundle: &Bundle, id: &OsStr) -> Self {
        let kind = first(
            bundle,
            &[
                "io.kubernetes.cri.container-type",
                "io.kubernetes.cri-o.ContainerType",
            ],
        );
        if kind == Some("sandbox") {
            return Self::default();
        }
        let labels = bundle.annotation("io.kubernetes.cri-o.Labels");
        let labels: HashMap<String, String> = labels
            .and_then(|labels| serde_json::from_str(labels).ok())
            .unwrap_or_default();
        let label = |name: &str| labels.get(name).map(String::as_str);
        let uid = first(
            bundle,
            &["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"],
        );
        let uid = uid.or_else(|| label("io.kubernetes.pod.uid"));
        let name = first(
            bundle,
            &[
                "io.kubernetes.cri.container-name",
                "io.kubernetes.container.name",
            ],
        );
        let name = name.or_else(|| label("io.kubernetes.container.name"));
        let pod = uid.zip(name).and_then(|(uid, container)| {
            Some(Key::Pod {
                uid: uid.parse().ok()?,
                container: container.parse().ok()?,
            })
        });
        let own = id.to_str().and_then(|id| id.parse().ok());
        Self {
            keys: pod.into_iter().chain(own.map(Key::Container)).collect(),
            marked: bundle.annotation(MARK).is_some(),
        }
    }
}

fn first<'a>(bundle: &'a Bundle, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| bundle.annotation(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(spec: &str) -> (Vec<String>, bool) {
        let identity = Identity::of(&Bundle::of(spec), OsStr::new("abc"));
        let keys = identity.keys.iter().map(Key::to_string).collect();
        (keys, identity.marked)
    }

    #[test]
    fn each_engine_says_it_in_its_own_way() {
        let (found, marked) = keys(
            r#"{"annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-uid":"u-1",
            "io.kubernetes.cri.container-name":"main","rocferry.dev/restore":"r"}}"#,
        );
        assert_eq!(found, ["container main of pod u-1", "container abc"]);
        assert!(marked);
        let (found, marked) = keys(
            r#"{"annotations":{"io.kubernetes.cri-o.ContainerType":"container",
            "io.kubernetes.cri-o.Labels":"{\"io.kubernetes.pod.uid\":\"u-1\",\"io.kubernetes.container.name\":\"main\"}"}}"#,
        );
        assert_eq!(found, ["container main of pod u-1", "container abc"]);
        assert!(!marked);
        assert_eq!(keys("{}"), (vec!["container abc".to_owned()], false));
    }

    #[test]
    fn a_sandbox_is_nobody() {
        for kind in [
            "io.kubernetes.cri.container-type",
            "io.kubernetes.cri-o.ContainerType",
        ] {
            let spec = format!(
                r#"{{"annotations":{{"{kind}":"sandbox","io.kubernetes.cri.sandbox-uid":"u","rocferry.dev/restore":"r"}}}}"#
            );
            assert_eq!(keys(&spec), (vec![], false));
        }
    }

    #[test]
    fn names_that_lead_elsewhere_name_nothing() {
        let (found, marked) = keys(
            r#"{"annotations":{"io.kubernetes.cri.sandbox-uid":"../../etc","io.kubernetes.cri.container-name":"main",
            "rocferry.dev/restore":""}}"#,
        );
        assert_eq!(found, ["container abc"]);
        assert!(marked);
        for spec in [
            r#"{"annotations":7}"#,
            r#"{"annotations":{"io.kubernetes.cri-o.Labels":"{"}}"#,
        ] {
            assert_eq!(keys(spec), (vec!["container abc".to_owned()], false));
        }
    }
}
