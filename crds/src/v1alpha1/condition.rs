//! Conditions: their types, their reasons, and the one way in which they are set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::words::words;

/// Types of conditions. The first holds the end of a request, or the state of a long-lived object.
pub mod types {
    /// The request has come to its end, well or not.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The long-lived object does what it is for.
    pub const READY: &str = "Ready";
    /// The request is with the agent of a node.
    pub const SCHEDULED: &str = "Scheduled";
    /// The containers stand still.
    pub const FROZEN: &str = "Frozen";
    /// CRIU has written all images.
    pub const DUMPED: &str = "Dumped";
    /// The checkpoint is whole in its store and verified.
    pub const UPLOADED: &str = "Uploaded";
    /// The checkpoint's data is on the chosen node.
    pub const PREFETCHED: &str = "Prefetched";
    /// The containers are restored.
    pub const RESTORED: &str = "Restored";
    /// The owner of the source pod owns the restored one.
    pub const HANDED_OVER: &str = "HandedOver";
    /// The restored containers run.
    pub const THAWED: &str = "Thawed";
}

/// Reasons that several kinds use. Reasons of placement are with placement.
pub mod reasons {
    /// Not looked at yet.
    pub const PENDING: &str = "Pending";
    /// Done.
    pub const COMPLETED: &str = "Completed";
    /// Given up by its deletion.
    pub const CANCELLED: &str = "Cancelled";
    /// Given up because the time was over.
    pub const TIMED_OUT: &str = "TimedOut";
}

words! {
    /// Status of a condition.
    ConditionStatus {
        /// It is so.
        True,
        /// It is not so.
        False,
        /// Not known yet.
        Unknown,
    }
}

/// Sets one condition in a list. `lastTransitionTime` changes only with the status; everything else always is what is
/// said now. Returns whether anything changed.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let same = |known: &&mut Condition| known.type_ == condition.type_;
    let Some(known) = conditions.iter_mut().find(same) else {
        conditions.push(condition);
        return true;
    };
    if known.status == condition.status {
        condition.last_transition_time = Time(known.last_transition_time.0);
    }
    let changed = *known != condition;
    *known = condition;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn condition(kind: &str, status: ConditionStatus, reason: &str, at: i64) -> Condition {
        Condition {
            type_: kind.to_owned(),
            status: status.to_string(),
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Time(Timestamp::from_second(at).expect("in range")),
            observed_generation: Some(1),
        }
    }

    #[test]
    fn the_time_is_that_of_the_last_change_of_status() {
        use ConditionStatus::{True, Unknown};
        let mut list = Vec::new();
        assert!(set_condition(
            &mut list,
            condition("Frozen", Unknown, "Pending", 1)
        ));
        assert!(set_condition(
            &mut list,
            condition("Dumped", Unknown, "Pending", 2)
        ));
        // Said again: nothing changes, not even the time.
        assert!(!set_condition(
            &mut list,
            condition("Frozen", Unknown, "Pending", 5)
        ));
        assert!(set_condition(
            &mut list,
            condition("Frozen", Unknown, "Waiting", 6)
        ));
        assert_eq!(list[0], condition("Frozen", Unknown, "Waiting", 1));
        assert!(set_condition(
            &mut list,
            condition("Frozen", True, "Completed", 7)
        ));
        assert_eq!(list[0], condition("Frozen", True, "Completed", 7));
        assert_eq!(list[1], condition("Dumped", Unknown, "Pending", 2));
    }
}
