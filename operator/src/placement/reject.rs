//! Why nodes do not do, in a form that stays small.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Most groups that are told.
pub const MAX_GROUPS: usize = 16;

/// Most nodes of a group that are named.
pub const MAX_NAMES: usize = 8;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why a node does not do, in one word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// All of them, in the order in which they are looked for.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word in the status.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

reasons! {
    /// It is not the node that was asked for, or lacks a label.
    NotSelected,
    /// Its agent does not work, or the node does not.
    NotReady,
    /// It is cordoned, or being emptied.
    Unschedulable,
    /// A restore has failed there.
    AlreadyTried,
    /// Pods cannot run under the wrapper there.
    NoWrapper,
    /// Nothing can be held there.
    CannotHold,
    /// Its agent was not configured for the store.
    StoreNotConfigured,
    /// Its CRIU is older than the one of the checkpoint.
    CriuTooOld,
    /// Its CPU lacks features.
    CpuFeaturesMissing,
    /// There is no room for the checkpoint.
    NoSpace,
    /// The kubelet would break the restore off.
    TooSlow,
    /// It has published no topology that makes sense.
    NoTopology,
    /// Too few GPUs are free.
    TooFewGpus,
    /// The GPUs do not fit.
    GpusDiffer,
}

/// Nodes that do not do, for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedGroup {
    /// Why, in one word.
    pub reason: Reason,
    /// Why, for people, as it is on one of the nodes.
    pub message: String,
    /// The first of them, by name.
    pub nodes: Vec<String>,
    /// How many there are.
    pub count: usize,
}

/// One node's reason.
pub(super) type Rejected = (Reason, Arc<str>);

/// Collects reasons of many nodes.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<Rejected, (Vec<String>, usize)>,
}

impl Groups {
    /// Nodes have to come by name.
    pub(super) fn add(&mut self, node: &str, rejected: Rejected) {
        let (nodes, count) = self.groups.entry(rejected).or_default();
        if nodes.len() < MAX_NAMES {
            nodes.push(node.to_owned());
        }
        *count += 1;
    }

    /// The largest groups first; where there are too many, those of one reason are one.
    pub(super) fn finish(self) -> Vec<RejectedGroup> {
        let mut groups: Vec<RejectedGroup> = self
            .groups
            .into_iter()
            .map(|((reason, message), (nodes, count))| RejectedGroup {
                reason,
                message: message.to_string(),
                nodes,
                count,
            })
            .collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then(a.reason.cmp(&b.reason)));
        if groups.len() <= MAX_GROUPS {
            return groups;
        }
        let mut merged: Vec<RejectedGroup> = Vec::new();
        for group in groups {
            match merged.iter_mut().find(|known| known.reason == group.reason) {
                None => merged.push(group),
                Some(known) => {
                    known.count += group.count;
                    known.nodes.extend(group.nodes);
                    known.nodes.sort_unstable();
                    known.nodes.truncate(MAX_NAMES);
                }
            }
        }
        merged.sort_by(|a, b| b.count.cmp(&a.count).then(a.reason.cmp(&b.reason)));
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_room_for_every_reason() {
        assert!(Reason::ALL.len() <= MAX_GROUPS);
        let mut groups = Groups::default();
        for node in 0..5000 {
            let reason = Reason::ALL[node % Reason::ALL.len()];
            groups.add(
                &format!("n{node:04}"),
                (reason, format!("number {node}").into()),
            );
        }
        let groups = groups.finish();
        assert_eq!(groups.len(), Reason::ALL.len());
        assert_eq!(groups.iter().map(|group| group.count).sum::<usize>(), 5000);
        assert!(groups.iter().all(|group| group.nodes.len() == MAX_NAMES));
        let first = groups
            .iter()
            .find(|group| group.reason == Reason::NotSelected);
        assert_eq!(first.map(|group| group.nodes[0].as_str()), Some("n0000"));
    }

    #[test]
    fn few_groups_keep_their_messages() {
        let mut groups = Groups::default();
        groups.add("a", (Reason::TooFewGpus, "2 of 8".into()));
        groups.add("b", (Reason::NotReady, "no".into()));
        groups.add("c", (Reason::NotReady, "no".into()));
        groups.add("d", (Reason::TooFewGpus, "3 of 8".into()));
        let told: Vec<_> = groups
            .finish()
            .into_iter()
            .map(|group| (group.message, group.count))
            .collect();
        let expected = [("no", 2), ("2 of 8", 1), ("3 of 8", 1)];
        assert_eq!(
            told,
            expected.map(|(message, count)| (message.to_owned(), count))
        );
    }
}
