//! Which pod a container belongs to, as its engine writes it into the container's annotations.

use std::collections::HashMap;

/// The keys of containerd and of CRI-O, in this order.
const UID: [&str; 2] = ["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"];
const NAME: [&str; 2] = ["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const NAMESPACE: [&str; 2] = [
    "io.kubernetes.cri.sandbox-namespace",
    "io.kubernetes.pod.namespace",
];
const CONTAINER: [&str; 2] = [
    "io.kubernetes.cri.container-name",
    "io.kubernetes.container.name",
];
const TYPE: [&str; 2] = [
    "io.kubernetes.cri.container-type",
    "io.kubernetes.cri-o.ContainerType",
];
/// CRI-O's labels of the container, a JSON object. They have names that older versions do not annotate.
const LABELS: &str = "io.kubernetes.cri-o.Labels";

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// UID of the pod.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Name of the container in it; the sandbox may have one too.
    pub container: Option<String>,
    /// It holds the pod's namespaces, and is none of its specification.
    pub sandbox: bool,
}

impl Identity {
    /// Reads annotations; `None`: it is no pod's.
    pub fn of<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let labels: HashMap<String, String> = annotation(LABELS)
            .and_then(|labels| serde_json::from_str(labels).ok())
            .unwrap_or_default();
        let first = |keys: [&str; 2]| {
            let found = keys.iter().find_map(|key| annotation(key));
            let found = found.map(str::to_owned);
            found.or_else(|| keys.iter().find_map(|key| labels.get(*key)).cloned())
        };
        Some(Self {
            uid: first(UID)?,
            namespace: first(NAMESPACE).unwrap_or_default(),
            name: first(NAME).unwrap_or_default(),
            container: first(CONTAINER),
            sandbox: first(TYPE).as_deref() == Some("sandbox"),
        })
    }

    /// Is the pod called so: by its UID, or as `NAMESPACE/NAME`?
    #[must_use]
    pub fn is(&self, wanted: &str) -> bool {
        let full = wanted.split_once('/');
        self.uid == wanted || full == Some((self.namespace.as_str(), self.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&'static str, &'static str)]) -> Option<Identity> {
        let map: HashMap<_, _> = pairs.iter().copied().collect();
        Identity::of(|key| map.get(key).copied())
    }

    #[test]
    fn both_engines_are_understood() {
        let wanted = Identity {
            uid: "u".to_owned(),
            namespace: "team".to_owned(),
            name: "train".to_owned(),
            container: Some("main".to_owned()),
            sandbox: false,
        };
        let containerd = of(&[
            ("io.kubernetes.cri.sandbox-uid", "u"),
            ("io.kubernetes.cri.sandbox-name", "train"),
            ("io.kubernetes.cri.sandbox-namespace", "team"),
            ("io.kubernetes.cri.container-name", "main"),
            ("io.kubernetes.cri.container-type", "container"),
        ]);
        assert_eq!(containerd.as_ref(), Some(&wanted));
        let crio = of(&[
            ("io.kubernetes.pod.uid", "u"),
            ("io.kubernetes.pod.name", "train"),
            ("io.kubernetes.pod.namespace", "team"),
            ("io.kubernetes.container.name", "main"),
            ("io.kubernetes.cri-o.ContainerType", "container"),
        ]);
        assert_eq!(crio.as_ref(), Some(&wanted));
        let labels = r#"{"io.kubernetes.pod.uid":"u","io.kubernetes.pod.name":"train",
            "io.kubernetes.pod.namespace":"team","io.kubernetes.container.name":"main"}"#;
        assert_eq!(of(&[(LABELS, labels)]).as_ref(), Some(&wanted));
        assert_eq!(of(&[(LABELS, "{")]), None);
        assert_eq!(of(&[("org.other", "u")]), None);
        for wanted in ["u", "team/train"] {
            assert!(containerd.as_ref().is_some_and(|one| one.is(wanted)));
        }
        for other in ["", "train", "other/train", "team/train/"] {
            assert!(containerd.as_ref().is_some_and(|one| !one.is(other)));
        }
    }

    #[test]
    fn the_sandbox_is_told_from_the_others() {
        let sandbox = of(&[
            ("io.kubernetes.pod.uid", "u"),
            ("io.kubernetes.container.name", "POD"),
            ("io.kubernetes.cri-o.ContainerType", "sandbox"),
        ]);
        assert!(sandbox.is_some_and(|one| one.sandbox));
    }
}
