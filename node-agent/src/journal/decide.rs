//! What a record asks for after a crash.

use super::{After, Phase, Record, Work};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing of it can be left: remove the record and its files.
    Forget,
    /// The container is to run, whatever was done to it.
    Resume,
    /// It stays frozen, and so does the record.
    Hold,
    /// Its checkpoint is stored and it was to end: it ends.
    Stop,
    /// What was restored of it so far ends.
    KillHalf,
    /// What was prepared so far is removed: it outlives a boot.
    Discard,
    /// A pod goes on that was about to.
    ThawPod,
    /// The same, when a boot has ended its containers before they ran: they are restored again.
    TakeBack,
}

/// Decides. `boot` is the present one.
pub(super) fn decide(record: &Record, boot: &str) -> Action {
    match record.work {
        Work::Prepare => return Action::Discard,
        // It does not know the containers yet.
        Work::ThawPod if record.phase == Phase::Begun => return Action::Forget,
        Work::ThawPod if record.boot == boot => return Action::ThawPod,
        Work::ThawPod if record.phase == Phase::Freezing => return Action::TakeBack,
        _ if record.boot != boot => return Action::Forget,
        _ => {}
    }
    match (record.work, record.phase) {
        (Work::Checkpoint, Phase::Stored) => match record.after {
            After::LeaveRunning => Action::Resume,
            After::KeepFrozen => Action::Hold,
            After::Stop => Action::Stop,
        },
        (Work::Restore, Phase::Begun) => Action::Forget,
        // Nobody was told that it runs.
        (Work::Restore, _) => Action::KillHalf,
        (_, Phase::Held) => Action::Hold,
        _ => Action::Resume,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::record::VERSION;
    use crate::journal::{Phase::*, Subject};
    use crate::runtime::RuntimeKind;

    fn record(work: Work, phase: Phase, after: After) -> Record {
        Record {
            version: VERSION,
            id: "a".to_owned(),
            boot: "now".to_owned(),
            begun_ms: 0,
            subject: Subject {
                runtime: RuntimeKind::Bare,
                name: "1".to_owned(),
                id: "1".to_owned(),
                init: None,
                cgroup: None,
                program: None,
                root: None,
            },
            work,
            phase,
            after,
            was_frozen: false,
            spool: None,
            checkpoint: None,
            members: Vec::new(),
            pod: None,
        }
    }

    #[test]
    fn only_what_was_stored_or_asked_for_stays_frozen() {
        use After::*;
        for after in [LeaveRunning, KeepFrozen, Stop] {
            for phase in [Begun, Freezing, Criu] {
                let record = record(Work::Checkpoint, phase, after);
                assert_eq!(decide(&record, "now"), Action::Resume, "{phase} {after:?}");
            }
        }
        for (after, action) in [
            (LeaveRunning, Action::Resume),
            (KeepFrozen, Action::Hold),
            (Stop, Action::Stop),
        ] {
            let record = record(Work::Checkpoint, Stored, after);
            assert_eq!(decide(&record, "now"), action);
        }
        let held = record(Work::Checkpoint, Held, KeepFrozen);
        assert_eq!(decide(&held, "now"), Action::Hold);
        for (phase, action) in [
            (Freezing, Action::Resume),
            (Held, Action::Hold),
            (Thawing, Action::Resume),
        ] {
            let record = record(Work::Freeze, phase, KeepFrozen);
            assert_eq!(decide(&record, "now"), action, "{phase}");
        }
    }

    #[test]
    fn half_a_restore_ends() {
        let begun = record(Work::Restore, Begun, After::LeaveRunning);
        assert_eq!(decide(&begun, "now"), Action::Forget);
        let half = record(Work::Restore, Criu, After::LeaveRunning);
        assert_eq!(decide(&half, "now"), Action::KillHalf);
    }

    #[test]
    fn what_was_prepared_outlives_a_boot() {
        for boot in ["now", "later"] {
            let begun = record(Work::Prepare, Begun, After::LeaveRunning);
            assert_eq!(decide(&begun, boot), Action::Discard);
        }
        let thaw = |phase| record(Work::ThawPod, phase, After::LeaveRunning);
        assert_eq!(decide(&thaw(Begun), "now"), Action::Forget);
        assert_eq!(decide(&thaw(Freezing), "now"), Action::ThawPod);
        assert_eq!(decide(&thaw(Thawing), "now"), Action::ThawPod);
        // It may have run.
        assert_eq!(decide(&thaw(Thawing), "later"), Action::Forget);
        assert_eq!(decide(&thaw(Freezing), "later"), Action::TakeBack);
        assert_eq!(decide(&thaw(Begun), "later"), Action::Forget);
    }

    #[test]
    fn after_a_boot_nothing_is_left() {
        for work in [Work::Checkpoint, Work::Restore, Work::Freeze] {
            for phase in [Begun, Freezing, Criu, Stored, Held, Thawing] {
                let record = record(work, phase, After::Stop);
                assert_eq!(decide(&record, "later"), Action::Forget, "{work} {phase}");
            }
        }
    }
}
