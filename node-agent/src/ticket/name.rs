//! Names of containers that are fit to be parts of file names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A text that is no such name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no {what}")]
pub struct InvalidName {
    /// What it should be.
    pub what: &'static str,
    /// The text, shortened.
    pub text: String,
}

/// Longest names that are shown in errors, in characters.
const SHOWN: usize = 64;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $longest:literal, $first:expr, $rest:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                let first: fn(u8) -> bool = $first;
                let rest: fn(u8) -> bool = $rest;
                let mut bytes = text.bytes();
                let good = bytes.next().is_some_and(first) && bytes.all(rest) && text.len() <= $longest;
                if good {
                    return Ok(Self(text.to_owned()));
                }
                Err(InvalidName {
                    what: $what,
                    text: text.chars().take(SHOWN).collect(),
                })
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

name!(
    /// UID of a pod, as the kubelet tells it to the container runtime: a UUID, or a hash for static pods.
    PodUid, "UID of a pod", 64,
    alphanumeric, |byte| byte.is_ascii_alphanumeric() || byte == b'-'
);

name!(
    /// Name of a container in its pod: a DNS label.
    ContainerName, "name of a container", 63,
    alphanumeric, |byte| byte.is_ascii_alphanumeric() || byte == b'-'
);

name!(
    /// Id of a container in its OCI runtime. Runtimes allow longer ones than fit into a file name.
    ContainerId, "id of a container", 200,
    |byte| byte.is_ascii_alphanumeric() || byte == b'_',
    |byte| byte.is_ascii_alphanumeric() || b"_+-.".contains(&byte)
);

/// Which container a ticket or a fence is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A container of a pod. It keeps this key however often the kubelet makes it anew.
    Pod {
        /// The pod.
        uid: PodUid,
        /// The container in it.
        container: ContainerName,
    },
    /// A container without a pod.
    Container(ContainerId),
}

impl Key {
    /// Beginning of the names of its files. No two keys have the same: neither part of a pod's key has a `_` in it.
    #[must_use]
    pub(crate) fn stem(&self) -> String {
        match self {
            Self::Pod { uid, container } => format!("pod_{uid}_{container}"),
            Self::Container(id) => format!("id_{id}"),
        }
    }

    /// Beginning of the names of files that all containers of a pod share.
    #[must_use]
    pub(crate) fn pod_stem(&self) -> String {
        match self {
            Self::Pod { uid, .. } => format!("pod_{uid}"),
            Self::Container(_) => self.stem(),
        }
    }

    /// How a pod is named where containers are: no id of a container has a `:` in it.
    #[must_use]
    pub(crate) fn pod_record(uid: &PodUid) -> String {
        format!("pod:{uid}")
    }

    /// The key whose files begin so.
    pub(crate) fn from_stem(stem: &str) -> Option<Self> {
        if let Some(id) = stem.strip_prefix("id_") {
            return id.parse().ok().map(Self::Container);
        }
        let (uid, container) = stem.strip_prefix("pod_")?.split_once('_')?;
        Some(Self::Pod {
            uid: uid.parse().ok()?,
            container: container.parse().ok()?,
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { uid, container } => write!(f, "container {container} of pod {uid}"),
            Self::Container(id) => write!(f, "container {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for text in [
            "", ".", "..", "a/b", "../a", "a\0", "-a", "a b", "ä", "a_b", "a\n",
        ] {
            text.parse::<PodUid>().expect_err(text);
            text.parse::<ContainerName>().expect_err(text);
        }
        for text in ["", ".", "..", "a/b", "../a", "a\0", "-a", "a b", "ä", "a\n"] {
            text.parse::<ContainerId>().expect_err(text);
        }
        "a".repeat(201).parse::<ContainerId>().expect_err("long");
        "a_1+x-2.y".parse::<ContainerId>().expect("good");
        "4c2d6e5a-0a3c-4d79-8a73-0a1f2b3c4d5e"
            .parse::<PodUid>()
            .expect("good");
    }

    #[test]
    fn errors_are_short() {
        let error = "/".repeat(5000).parse::<PodUid>().expect_err("bad");
        assert!(error.to_string().len() < 120, "{error}");
    }

    proptest! {
        #[test]
        fn stems_name_their_keys(uid in "[0-9a-f-]{1,64}", name in "[a-z0-9-]{1,63}", id in "[\\w+.-]{1,200}") {
            if let (Ok(uid), Ok(container)) = (uid.parse(), name.parse()) {
                let key = Key::Pod { uid, container };
                prop_assert_eq!(Key::from_stem(&key.stem()), Some(key));
            }
            if let Ok(id) = id.parse() {
                let key = Key::Container(id);
                prop_assert!(!key.stem().contains('/') && key.stem().len() < 240);
                prop_assert_eq!(Key::from_stem(&key.stem()), Some(key));
            }
        }

        #[test]
        fn any_stem_is_read_or_refused(stem in ".{0,40}") {
            if let Some(key) = Key::from_stem(&stem) {
                prop_assert_eq!(key.stem(), stem);
            }
        }
    }
}
