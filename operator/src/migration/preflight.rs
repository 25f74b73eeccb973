//! How a pod can move, before anything is touched.

use rocferry_crds::v1alpha1::{After, Mode};
use thiserror::Error;

/// What the choice depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Mode that was asked for.
    pub mode: Mode,
    /// What becomes of the source after its checkpoint.
    pub after: After,
    /// Who owns the pod.
    pub owner: OwnerKind,
    /// A rolling update of the owner is under way.
    pub rolling: bool,
    /// All containers of the pod are in the checkpoint.
    pub whole_pod: bool,
    /// The first volume that only one node or one pod can have.
    pub exclusive_volume: Option<String>,
    /// Quota of the namespace leaves room for a second pod.
    pub quota: bool,
    /// The source's node uses cgroup version 2.
    pub cgroup_v2: bool,
    /// The API server has the policies that guard a pod: ValidatingAdmissionPolicy.
    pub validating: bool,
    /// The API server has the policies that mark an owner's next pod: MutatingAdmissionPolicy.
    pub mutating: bool,
    /// Controllers have service accounts of their own.
    pub controller_accounts: bool,
}

/// Who owns a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// Nobody.
    Nobody,
    /// A ReplicaSet.
    ReplicaSet,
    /// A Job.
    Job,
    /// A StatefulSet.
    StatefulSet,
    /// Something else, by kind.
    Other(String),
}

/// Why a pod cannot move as asked for, and what would allow it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The source runs on after its checkpoint.
    #[error(
        "The CheckpointRequest has after: {after}, so the source runs on or ends; set after: KeepFrozen there"
    )]
    NotKeptFrozen {
        /// What it has.
        after: After,
    },
    /// Containers would stay behind.
    #[error("The checkpoint leaves containers of the pod out; take one of all of them")]
    PartOfPod,
    /// A freeze that holds needs cgroup version 2.
    #[error(
        "The source's node uses cgroup version 1, in which nothing can be kept frozen; boot it with version 2"
    )]
    CgroupVersion,
    /// Nothing would stop controllers.
    #[error(
        "The API server has no ValidatingAdmissionPolicy (v1.30), so nothing would guard the pods meanwhile"
    )]
    NoGuards,
    /// The guards cannot tell controllers from others.
    #[error(
        "Controllers share one service account, so the guards cannot tell them apart; run the controller manager with --use-service-account-credentials"
    )]
    SharedAccount,
    /// The owner replaces its pods.
    #[error("A rolling update of the owner is under way; wait for its end")]
    Rolling,
    /// Two cannot be at once.
    #[error(
        "{what} cannot be there twice; mode: StopFirst allows it, with a gap between source and target"
    )]
    OnlyStopFirst {
        /// What.
        what: String,
    },
    /// The owner's next pod could not be kept from starting cold.
    #[error(
        "The API server has no MutatingAdmissionPolicy, so the pod that {owner} makes would start cold"
    )]
    NoMarks {
        /// Kind of the owner.
        owner: String,
    },
}

impl OwnerKind {
    fn name(&self) -> &str {
        match self {
            Self::Nobody => "nobody",
            Self::ReplicaSet => "ReplicaSet",
            Self::Job => "Job",
            Self::StatefulSet => "StatefulSet",
            Self::Other(kind) => kind,
        }
    }
}

/// Chooses the mode of a migration, with the reason for people.
///
/// # Errors
/// [`Refusal`]: the first thing that stands against it.
pub fn choose_mode(facts: &Facts) -> Result<(Mode, String), Refusal> {
    if facts.after != After::KeepFrozen {
        return Err(Refusal::NotKeptFrozen { after: facts.after });
    }
    if !facts.whole_pod {
        return Err(Refusal::PartOfPod);
    }
    if !facts.cgroup_v2 {
        return Err(Refusal::CgroupVersion);
    }
    if !facts.validating {
        return Err(Refusal::NoGuards);
    }
    let owned = facts.owner != OwnerKind::Nobody;
    if owned && !facts.controller_accounts {
        return Err(Refusal::SharedAccount);
    }
    if facts.rolling {
        return Err(Refusal::Rolling);
    }
    // In either mode an owner may miss a pod for a moment, when a target is lost.
    if owned && !facts.mutating {
        let owner = facts.owner.name().to_owned();
        return Err(Refusal::NoMarks { owner });
    }
    if facts.mode == Mode::StopFirst {
        return Ok((Mode::StopFirst, "As asked for".to_owned()));
    }
    let what = match (&facts.owner, &facts.exclusive_volume) {
        (_, Some(volume)) => Some(format!("Volume {volume}")),
        (OwnerKind::StatefulSet | OwnerKind::Other(_), None) => {
            Some(format!("A pod of a {}", facts.owner.name()))
        }
        _ if !facts.quota => Some("Quota of the namespace: the pod".to_owned()),
        _ => None,
    };
    match what {
        Some(what) => Err(Refusal::OnlyStopFirst { what }),
        None => Ok((
            Mode::Held,
            "Source and target can be there at once".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            mode: Mode::Held,
            after: After::KeepFrozen,
            owner: OwnerKind::ReplicaSet,
            rolling: false,
            whole_pod: true,
            exclusive_volume: None,
            quota: true,
            cgroup_v2: true,
            validating: true,
            mutating: true,
            controller_accounts: true,
        }
    }

    fn refusal(change: impl FnOnce(&mut Facts)) -> String {
        let mut facts = facts();
        change(&mut facts);
        choose_mode(&facts).expect_err("is possible").to_string()
    }

    #[test]
    fn held_where_two_can_be() {
        for owner in [OwnerKind::Nobody, OwnerKind::ReplicaSet, OwnerKind::Job] {
            let facts = Facts { owner, ..facts() };
            assert_eq!(choose_mode(&facts).expect("possible").0, Mode::Held);
        }
    }

    #[test]
    fn stop_first_is_an_opt_in() {
        let owners = [
            OwnerKind::StatefulSet,
            OwnerKind::Other("TrainJob".to_owned()),
        ];
        for owner in owners {
            let held = Facts { owner, ..facts() };
            let refused = choose_mode(&held).expect_err("is possible").to_string();
            assert!(refused.contains("mode: StopFirst"), "{refused}");
            let stop = Facts {
                mode: Mode::StopFirst,
                ..held
            };
            assert_eq!(choose_mode(&stop).expect("possible").0, Mode::StopFirst);
        }
        let volume = refusal(|facts| facts.exclusive_volume = Some("data".to_owned()));
        assert!(
            volume.starts_with("Volume data cannot be there twice"),
            "{volume}"
        );
        assert!(refusal(|facts| facts.quota = false).contains("mode: StopFirst"));
    }

    /// What is different, and what is said then.
    type Case = (fn(&mut Facts), &'static str);

    #[test]
    fn refusals_say_what_would_allow_it() {
        let cases: [Case; 7] = [
            (
                |facts| facts.after = After::LeaveRunning,
                "set after: KeepFrozen",
            ),
            (|facts| facts.whole_pod = false, "take one of all"),
            (|facts| facts.cgroup_v2 = false, "version 2"),
            (
                |facts| facts.validating = false,
                "ValidatingAdmissionPolicy",
            ),
            (
                |facts| facts.controller_accounts = false,
                "--use-service-account-credentials",
            ),
            (|facts| facts.rolling = true, "wait for its end"),
            (
                |facts| facts.mutating = false,
                "ReplicaSet makes would start cold",
            ),
        ];
        for (change, text) in cases {
            let refused = refusal(change);
            assert!(refused.contains(text), "{refused}");
        }
        // A pod of nobody needs neither marks nor accounts.
        let bare = Facts {
            owner: OwnerKind::Nobody,
            controller_accounts: false,
            mutating: false,
            ..facts()
        };
        assert_eq!(choose_mode(&bare).expect("possible").0, Mode::Held);
    }
}
