//! What a specification grants.

use std::collections::HashMap;

use rocferry_image::criu::Capabilities;
use serde_json::Value;

use super::capabilities::named;
use crate::spec::{Spec, plain};

/// What a container may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
    pub(super) bounding: Capabilities,
    /// What its processes can come to: with `no_new_privs` no more than they begin with.
    pub(super) reachable: Capabilities,
    pub(super) no_new_privs: bool,
    pub(super) seccomp: bool,
    /// Kind of the mount at each place.
    pub(super) mounts: HashMap<String, String>,
    /// Places that the runtime hides.
    pub(super) masked: Vec<String>,
}

/// The profile of a security module that a specification asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    /// As CRIU takes it: `apparmor:NAME` or `selinux:LABEL`.
    pub(crate) process: Option<String>,
    /// Label of the container's mounts.
    pub(crate) mounts: Option<String>,
}

impl Granted {
    /// Reads it. What is not there, or makes no sense, grants nothing.
    pub(super) fn by(spec: &Spec) -> Self {
        let process = |name| spec.part("process", name);
        let user = |name| process("user").and_then(|user| user.get(name));
        let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let set = |name| {
            let list = process("capabilities").and_then(|sets| sets.get(name));
            let names = texts(list).map(|name| named(name).0);
            Capabilities(names.fold(0, |set, one| set | one))
        };
        let no_new_privs = process("noNewPrivileges").and_then(Value::as_bool) == Some(true);
        let bounding = set("bounding");
        let groups = user("additionalGids").and_then(Value::as_array);
        let seccomp = spec.part("linux", "seccomp");
        let says = |name| {
            let value = seccomp.and_then(|seccomp| seccomp.get(name));
            value.is_some_and(|value| {
                !matches!(value, Value::Null) && value != "" && !is_empty(value)
            })
        };
        Self {
            uid: user("uid").and_then(id).unwrap_or(0),
            gid: user("gid").and_then(id).unwrap_or(0),
            groups: groups.into_iter().flatten().filter_map(id).collect(),
            bounding,
            reachable: match no_new_privs {
                true => Capabilities(bounding.0 & set("permitted").0),
                false => bounding,
            },
            no_new_privs,
            seccomp: says("defaultAction") || says("syscalls"),
            mounts: spec
                .mounts()
                .map(|mount| (plain(mount.destination), mount.kind.to_owned()))
                .collect(),
            masked: texts(spec.part("linux", "maskedPaths"))
                .map(plain)
                .collect(),
        }
    }
}

impl Profile {
    /// Reads it.
    pub(crate) fn of(spec: &Spec) -> Self {
        let text = |object, name| {
            let text = spec.part(object, name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let apparmor = text("process", "apparmorProfile").filter(|name| name != "unconfined");
        let apparmor = apparmor.map(|name| format!("apparmor:{name}"));
        let selinux = text("process", "selinuxLabel").map(|label| format!("selinux:{label}"));
        Self {
            process: selinux.or(apparmor),
            mounts: text("linux", "mountLabel"),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn spec(text: &str) -> Spec {
        Spec::parse(Path::new("/b"), text.as_bytes().to_vec()).expect("JSON")
    }

    #[test]
    fn nothing_said_grants_nothing() {
        for text in [
            "{}",
            r#"{"process":null,"linux":7}"#,
            r#"{"process":{"user":{"uid":-1,"gid":4294967296},"capabilities":{"bounding":"CAP_CHOWN"},"noNewPrivileges":1},
                "linux":{"seccomp":{"syscalls":[]}}}"#,
        ] {
            let granted = Granted::by(&spec(text));
            assert_eq!((granted.uid, granted.gid), (0, 0), "{text}");
            assert_eq!(granted.bounding, Capabilities(0), "{text}");
            assert!(!granted.seccomp && !granted.no_new_privs, "{text}");
        }
    }

    #[test]
    fn no_new_privs_limits_what_can_be_reached() {
        let text = |flag| {
            format!(
                r#"{{"process":{{"capabilities":{{"bounding":["CAP_CHOWN","CAP_KILL"],"permitted":["CAP_KILL"]}},"noNewPrivileges":{flag}}}}}"#
            )
        };
        let with = Granted::by(&spec(&text(true)));
        assert_eq!(with.reachable, named("CAP_KILL"));
        let without = Granted::by(&spec(&text(false)));
        assert_eq!(without.reachable, without.bounding);
    }

    #[test]
    fn profiles_are_named_as_criu_takes_them() {
        let of = |text| Profile::of(&spec(text)).process;
        assert_eq!(
            of(r#"{"process":{"apparmorProfile":"cri-containerd.apparmor.d"}}"#).as_deref(),
            Some("apparmor:cri-containerd.apparmor.d")
        );
        assert_eq!(of(r#"{"process":{"apparmorProfile":"unconfined"}}"#), None);
        let selinux = r#"{"process":{"selinuxLabel":"system_u:system_r:container_t:s0"},"linux":{"mountLabel":"m"}}"#;
        let profile = Profile::of(&spec(selinux));
        assert_eq!(
            profile.process.as_deref(),
            Some("selinux:system_u:system_r:container_t:s0")
        );
        assert_eq!(profile.mounts.as_deref(), Some("m"));
    }
}
