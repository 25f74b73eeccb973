//! What the wrapper tells the script, and the script the wrapper.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::spec::{CgroupPlace, Spec};
use crate::ticket::{TicketError, read_bounded, write_whole};

const MAX_FILE: u64 = 64 << 10;

/// What the script has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Plan {
    /// Where the cgroup hierarchy is mounted.
    pub(crate) hierarchy: PathBuf,
    /// Where CRIU is to go.
    pub(crate) refuge: PathBuf,
    /// The wrapper that restores.
    pub(crate) wrapper: Named,
    /// Where the container is to be.
    pub(crate) place: Option<Place>,
}

/// Where the new container's cgroup is to be, as its specification says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Place {
    /// Here, or below.
    Path(PathBuf),
    /// In this unit of systemd's.
    Unit(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Unit(unit) => f.write_str(unit),
        }
    }
}

impl Place {
    /// From the specification; `None` if that leaves it open.
    pub(crate) fn of(spec: &Spec, hierarchy: &Path) -> Option<Self> {
        Some(match spec.cgroup()? {
            CgroupPlace::Path(path) => Self::Path(hierarchy.join(path.trim_start_matches('/'))),
            CgroupPlace::Systemd { name, .. } if name.ends_with(".slice") => {
                Self::Unit(name.to_owned())
            }
            CgroupPlace::Systemd { prefix: "", name } => Self::Unit(format!("{name}.scope")),
            CgroupPlace::Systemd { prefix, name } => Self::Unit(format!("{prefix}-{name}.scope")),
        })
    }

    /// Is this cgroup there?
    pub(crate) fn holds(&self, cgroup: &Path) -> bool {
        match self {
            Self::Path(path) => cgroup.starts_with(path),
            Self::Unit(unit) => cgroup.iter().any(|part| part == unit.as_str()),
        }
    }
}

/// How far the script has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Stage {
    /// It runs, while CRIU is still in the container's cgroup.
    Begun,
    /// CRIU is out of the way, and the cgroup has been frozen on trial.
    Proven,
    /// The container is frozen for good.
    Frozen,
}

/// What the script has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Proof {
    pub(crate) stage: Stage,
    /// The container's cgroup, once it is known.
    pub(crate) cgroup: Option<PathBuf>,
    /// CRIU.
    pub(crate) criu: Named,
    /// The first process of the container, once all of it is frozen.
    pub(crate) init: Option<Named>,
    /// Whether the container's processes were to be killed together for want of memory, before the restore.
    pub(crate) oom_group: Option<bool>,
}

/// A process, which another one with its pid is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Named {
    pub(crate) pid: i32,
    /// When it was started, in ticks since boot.
    pub(crate) started: u64,
}

/// A file in the container's folder.
pub(crate) trait Note: Serialize + DeserializeOwned {
    /// Its name.
    const NAME: &'static str;

    /// Reads it; `None` if it is not there.
    fn read(folder: &Path) -> Result<Option<Self>, TicketError> {
        let path = folder.join(Self::NAME);
        let Some(content) = read_bounded(&path, MAX_FILE)? else {
            return Ok(None);
        };
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|error| TicketError::Damaged {
                path,
                reason: error.to_string(),
            })
    }

    /// Writes it.
    fn write(&self, folder: &Path) -> Result<(), TicketError> {
        let text = serde_json::to_vec(self)
            .map_err(io::Error::other)
            .map_err(TicketError::file("encode", folder.join(Self::NAME)))?;
        write_whole(folder, Self::NAME, &text)
    }
}

impl Note for Plan {
    const NAME: &'static str = "hold-plan.json";
}

impl Note for Proof {
    const NAME: &'static str = "hold-proof.json";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_containers_place_is_known_by_both_drivers() {
        let place = |path: &str| {
            let text = format!(r#"{{"linux":{{"cgroupsPath":"{path}"}}}}"#);
            let spec = Spec::parse(Path::new(""), text.into_bytes()).expect("JSON");
            Place::of(&spec, Path::new("/c"))
        };
        let holds =
            |path: &str, cgroup: &str| place(path).expect("it says where").holds(Path::new(cgroup));
        assert!(holds("/k/podu/a", "/c/k/podu/a") && holds("/k/podu/a", "/c/k/podu/a/container"));
        assert!(!holds("/k/podu/a", "/c/k/podu/b") && !holds("/k/podu/a", "/c/k/podu/ab"));
        let scope = "k-podu.slice:cri:a";
        assert!(holds(scope, "/c/k.slice/k-podu.slice/cri-a.scope"));
        assert!(holds(
            scope,
            "/c/k.slice/k-podu.slice/cri-a.scope/container"
        ));
        assert!(!holds(scope, "/c/k.slice/k-podu.slice/cri-b.scope"));
        assert!(!holds(scope, "/c/k.slice/k-podu.slice"));
        assert_eq!(
            place("a:b:x.slice"),
            Some(Place::Unit("x.slice".to_owned()))
        );
        assert_eq!(place(":"), None);
    }
}
