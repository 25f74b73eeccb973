//! Finding a pod: its running containers, as the runtimes know them, and its cgroup.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::record::folder_of;
use super::{Identity, PodError};
use crate::freeze::Cgroup;
use crate::process::{self, ProcessId};
use crate::runtime::{Container, Listed, Now, Runc};
use crate::ticket::{ContainerName, PodUid};

/// What engines have in a pod's cgroup beside its containers: CRI-O's monitors.
const MONITOR: &str = "conmon";

/// Shortest beginning of a container's id that is taken for one.
const SHORTEST: usize = 4;

/// A pod whose containers run.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its UID.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The cgroup of the whole pod.
    pub cgroup: Cgroup,
    /// Its sandbox, if that runs: it holds the namespaces that the containers share.
    pub sandbox: Option<Container>,
    /// Its containers, in the order in which they were created.
    pub members: Vec<Member>,
}

/// A container of a pod.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name in the pod.
    pub name: ContainerName,
    /// The container.
    pub container: Container,
}

impl Member {
    /// Folder of its files in the checkpoint.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        folder_of(&self.name)
    }
}

impl Pod {
    /// Looks it up by its UID, as `NAMESPACE/NAME`, or by the id of one of its containers.
    ///
    /// # Errors
    /// There is none, or it is not as a pod is.
    pub fn find(runc: &Runc, wanted: &str) -> Result<Self, PodError> {
        let listed: Vec<(Listed, Identity)> = runc
            .list()
            .into_iter()
            .filter_map(|one| {
                let identity = Identity::of(|key| one.annotation(key))?;
                Some((one, identity))
            })
            .collect();
        let ids = listed
            .iter()
            .map(|(one, identity)| (one.id.as_str(), identity));
        let mut found: Option<Self> = None;
        for uid in uids(ids, wanted) {
            let own = listed.iter().filter(|(_, identity)| identity.uid == uid);
            let own: Vec<_> = own.collect();
            let Some(pod) = Self::of(runc, &own)? else {
                continue;
            };
            if let Some(first) = found {
                return Err(PodError::Ambiguous {
                    name: wanted.to_owned(),
                    first: first.uid.to_string(),
                    second: uid,
                });
            }
            found = Some(pod);
        }
        found.ok_or_else(|| PodError::NotFound {
            name: wanted.to_owned(),
        })
    }

    /// `None`: nothing of it runs.
    fn of(runc: &Runc, listed: &[&(Listed, Identity)]) -> Result<Option<Self>, PodError> {
        let (mut members, mut sandbox) = (Vec::new(), None);
        let mut known = None;
        for (one, identity) in listed {
            match runc.look(one)? {
                Now::Ended => {}
                Now::Starts(state) => {
                    return Err(PodError::Starting {
                        container: identity.container.clone().unwrap_or_else(|| one.id.clone()),
                        state,
                    });
                }
                Now::Runs { container, .. } if identity.sandbox => sandbox = Some(*container),
                Now::Runs { container, created } => {
                    let name = identity.container.clone().unwrap_or_default();
                    members.push((created, name.parse::<ContainerName>()?, *container));
                    known = Some(identity);
                }
            }
        }
        let Some(identity) = known else {
            return Ok(None);
        };
        members.sort_by(|(a, _, one), (b, _, other)| (a, &one.id).cmp(&(b, &other.id)));
        let members: Vec<Member> = members
            .into_iter()
            .map(|(_, name, container)| Member { name, container })
            .collect();
        for (at, member) in members.iter().enumerate() {
            let mut later = members.iter().skip(at + 1);
            if let Some(other) = later.find(|other| other.name == member.name) {
                return Err(PodError::Twice {
                    name: member.name.to_string(),
                    first: member.container.id.clone(),
                    second: other.container.id.clone(),
                });
            }
        }
        let all = members
            .iter()
            .map(|member| &member.container)
            .chain(&sandbox);
        let all =
            all.filter_map(|container| Some((container.id.as_str(), container.cgroup.as_ref()?)));
        let Some(cgroup) = common_parent(all)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            uid: identity.uid.parse::<PodUid>()?,
            namespace: identity.namespace.clone(),
            name: identity.name.clone(),
            cgroup,
            sandbox,
            members,
        }))
    }

    /// As people name it.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// A process in the pod's network: the sandbox's, which outlives containers.
    #[must_use]
    pub fn network(&self) -> Option<ProcessId> {
        let first = self.members.first().map(|member| member.container.init);
        self.sandbox.as_ref().map(|sandbox| sandbox.init).or(first)
    }

    /// Fails if something in the pod's cgroup belongs to none of its containers: what it is, and what becomes of it,
    /// nobody knows.
    ///
    /// # Errors
    /// [`PodError::Stranger`].
    pub fn is_alone(&self) -> Result<(), PodError> {
        let containers = self.members.iter().map(|member| &member.container);
        let known: Vec<&Cgroup> = containers
            .chain(&self.sandbox)
            .filter_map(|container| container.cgroup.as_ref())
            .collect();
        for pid in self.cgroup.processes()? {
            // One that has ended is nobody.
            let Ok(own) = Cgroup::of_process(pid) else {
                continue;
            };
            let Ok(comm) = process::read(&process::proc(pid).join("comm")) else {
                continue;
            };
            let accounted = known.iter().any(|cgroup| cgroup.holds(&own));
            let what = comm.trim().to_owned();
            if !accounted && what != MONITOR {
                return Err(PodError::Stranger { pid, what });
            }
        }
        Ok(())
    }
}

/// UIDs of pods that may be meant.
fn uids<'a>(
    listed: impl Iterator<Item = (&'a str, &'a Identity)> + Clone,
    wanted: &str,
) -> BTreeSet<String> {
    let is = |identity: &Identity| identity.is(wanted);
    let of_pod = listed.clone().filter(|(_, identity)| is(identity));
    let found: BTreeSet<String> = of_pod.map(|(_, identity)| identity.uid.clone()).collect();
    if !found.is_empty() {
        return found;
    }
    let whole = listed.clone().filter(|(id, _)| *id == wanted);
    let found: BTreeSet<String> = whole.map(|(_, identity)| identity.uid.clone()).collect();
    if !found.is_empty() || wanted.len() < SHORTEST {
        return found;
    }
    let begins = listed.filter(|(id, _)| id.starts_with(wanted));
    begins.map(|(_, identity)| identity.uid.clone()).collect()
}

/// The cgroup right above those of all containers; `None` without containers.
fn common_parent<'a>(
    all: impl Iterator<Item = (&'a str, &'a Cgroup)>,
) -> Result<Option<Cgroup>, PodError> {
    let mut common: Option<Cgroup> = None;
    for (id, cgroup) in all {
        let Some(parent) = cgroup.parent() else {
            return Err(PodError::NoCgroup {
                container: id.to_owned(),
                cgroup: cgroup.path().to_owned(),
            });
        };
        match &common {
            None => common = Some(parent),
            Some(first) if *first != parent => {
                return Err(PodError::Cgroup {
                    container: id.to_owned(),
                    cgroup: cgroup.path().to_owned(),
                    pod: first.path().to_owned(),
                });
            }
            Some(_) => {}
        }
    }
    Ok(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: &str, name: &str) -> Identity {
        Identity {
            uid: uid.to_owned(),
            namespace: "team".to_owned(),
            name: name.to_owned(),
            container: Some("main".to_owned()),
            sandbox: false,
        }
    }

    #[test]
    fn a_pod_has_three_kinds_of_names() {
        let list = [
            ("aaaa1111", identity("u1", "train")),
            ("aaaa2222", identity("u1", "train")),
            ("bbbb1111", identity("u2", "serve")),
            // The same name again, of a pod that is being replaced.
            ("cccc1111", identity("u3", "train")),
        ];
        let found = |wanted| {
            let list = list.iter().map(|(id, identity)| (*id, identity));
            uids(list, wanted).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(found("u2"), ["u2"]);
        assert_eq!(found("team/serve"), ["u2"]);
        assert_eq!(found("team/train"), ["u1", "u3"]);
        assert_eq!(found("aaaa2222"), ["u1"]);
        assert_eq!(found("aaaa"), ["u1"]);
        for none in ["", "aaa", "train", "dddd"] {
            assert!(found(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn containers_of_a_pod_lie_side_by_side() {
        let at = |path: &str| -> Cgroup {
            serde_json::from_value(format!("/sys/fs/cgroup/{path}").into()).expect("a path")
        };
        let find = |paths: &[&str]| {
            let all: Vec<_> = paths.iter().map(|path| at(path)).collect();
            common_parent(all.iter().map(|cgroup| ("x", cgroup)))
        };
        let pod = at("kubepods/podu");
        let found = find(&["kubepods/podu/a", "kubepods/podu/b"]).expect("side by side");
        assert_eq!(found, Some(pod));
        let slice = "kubepods.slice/kubepods-podu.slice";
        let (one, two) = (
            format!("{slice}/cri-containerd-a.scope"),
            format!("{slice}/b.scope"),
        );
        let found = find(&[&one, &two]).expect("side by side");
        assert_eq!(found, Some(at(slice)));
        assert!(find(&[]).expect("none").is_none());
        let error = find(&["kubepods/podu/a", "kubepods/podv/b"]).expect_err("two pods");
        assert!(matches!(error, PodError::Cgroup { .. }), "{error}");
        let error = find(&["alone"]).expect_err("no pod");
        assert!(matches!(error, PodError::NoCgroup { .. }), "{error}");
    }
}
