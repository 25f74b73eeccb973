use std::time::{SystemTime, UNIX_EPOCH};

use rocferry_image::manifest::CheckpointId;

use super::*;
use crate::LeaseId;

const NOW: u64 = 1_000_000_000;
const GRACE: u64 = 3_600_000;
const SKEW: u64 = 300_000;

fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

fn pack() -> PackId {
    PackId([1; 16])
}

/// One pack that nothing needs, written then.
fn one(written: Option<u64>) -> Knowledge {
    let modified = written.map(at);
    let mut known = Knowledge::default();
    known.packs.insert(pack(), Meta { size: 7, modified });
    known
}

fn condemned(since: Option<u64>) -> Knowledge {
    let mut known = one(Some(0));
    known.condemned.insert(pack(), since);
    known
}

fn lease(kind: LeaseKind, started_ms: u64, expires_ms: u64) -> Lease {
    Lease {
        kind,
        started_ms,
        expires_ms,
        holder: "somebody".to_owned(),
        packs: Vec::new(),
        checkpoints: Vec::new(),
    }
}

fn checkpoint() -> CheckpointId {
    CheckpointId::new(UNIX_EPOCH, [0; 6])
}

fn plan(known: &Knowledge) -> Plan {
    let length = Duration::from_millis;
    Plan::new(known, NOW, length(GRACE), length(SKEW))
}

fn todo(known: &Knowledge) -> Vec<Action> {
    let plan = plan(known);
    let amounts = [
        plan.report.needed,
        plan.report.needed_condemned,
        plan.report.young,
        plan.report.condemned,
        plan.report.waiting,
        plan.report.held,
        plan.report.deleted,
    ];
    let packs: u64 = amounts.iter().map(|amount| amount.packs).sum();
    let bytes: u64 = amounts.iter().map(|amount| amount.bytes).sum();
    assert_eq!(packs, known.packs.len() as u64, "each pack is counted once");
    assert_eq!(bytes, 7 * packs);
    plan.todo
}

#[test]
fn a_pack_is_condemned_when_it_is_old_enough() {
    let none = Vec::<Action>::new();
    assert_eq!(todo(&one(Some(NOW - GRACE + 1))), none);
    assert_eq!(todo(&one(Some(NOW - GRACE))), [Action::Condemn(pack())]);
    // By a clock that is ahead.
    assert_eq!(todo(&one(Some(NOW + 1))), none);
    assert_eq!(todo(&one(None)), [Action::Condemn(pack())]);
    let mut known = one(Some(0));
    known.needed.insert(pack());
    assert_eq!(todo(&known), none);
}

#[test]
fn a_pack_that_may_be_of_a_running_upload_is_not_condemned() {
    for (written, started, expected) in [
        (Some(0), SKEW + GRACE, false),
        (Some(0), SKEW + GRACE + 1, true),
        (None, NOW, false),
    ] {
        let mut known = one(written);
        let upload = lease(LeaseKind::Upload, started, NOW);
        known.leases.insert(LeaseId([0; 16]), upload);
        assert_eq!(!todo(&known).is_empty(), expected, "{written:?} {started}");
        assert_eq!(plan(&known).report.holders.is_empty(), expected);
    }
}

#[test]
fn a_condemned_pack_goes_after_the_grace() {
    let none = Vec::<Action>::new();
    assert_eq!(todo(&condemned(Some(NOW - GRACE + 1))), none);
    assert_eq!(
        todo(&condemned(Some(NOW - GRACE))),
        [Action::Delete(pack())]
    );
    let mut known = condemned(Some(NOW - GRACE));
    known.needed.insert(pack());
    assert_eq!(todo(&known), none);
}

#[test]
fn a_condemnation_without_a_time_is_written_again() {
    for since in [None, Some(NOW + SKEW + 1), Some(u64::MAX)] {
        assert_eq!(
            todo(&condemned(since)),
            [Action::Confirm(pack())],
            "{since:?}"
        );
    }
}

#[test]
fn an_upload_holds_what_was_condemned_after_it_began() {
    let since = NOW - GRACE;
    for (kind, started, expires, deleted) in [
        (LeaseKind::Upload, since, NOW, false),
        (LeaseKind::Upload, since + SKEW, NOW - SKEW + 1, false),
        // It knows of the condemnation.
        (LeaseKind::Upload, since + SKEW + 1, NOW, true),
        // It is dead.
        (LeaseKind::Upload, since, NOW - SKEW, true),
        // It relies on what it names.
        (LeaseKind::Restore, since, NOW, true),
    ] {
        let mut known = condemned(Some(since));
        let lease = lease(kind, started, expires);
        known.leases.insert(LeaseId([0; 16]), lease);
        assert_eq!(
            !todo(&known).is_empty(),
            deleted,
            "{kind:?} {started} {expires}"
        );
        assert_eq!(plan(&known).report.held.packs, u64::from(!deleted));
    }
}

#[test]
fn what_a_lease_names_stays() {
    let none = Vec::<Action>::new();
    let mut restore = lease(LeaseKind::Restore, 0, NOW);
    restore.packs.push(pack());
    for mut known in [condemned(Some(0)), one(Some(0))] {
        known.leases.insert(LeaseId([0; 16]), restore.clone());
        assert_eq!(todo(&known), none);
    }
    // A checkpoint that is there says itself what it needs. Of one that is gone it is not known.
    let mut restore = lease(LeaseKind::Restore, 0, NOW);
    restore.checkpoints.push(checkpoint());
    let mut known = condemned(Some(0));
    known.leases.insert(LeaseId([0; 16]), restore);
    assert_eq!(todo(&known), none);
    known.checkpoints.insert(checkpoint());
    assert_eq!(todo(&known), [Action::Delete(pack())]);
}

#[test]
fn what_belongs_to_nothing_is_removed() {
    let mut known = Knowledge::default();
    known.indexes.push(pack());
    known.condemned.insert(pack(), None);
    let end = NOW - SKEW - GRACE;
    for (number, expires) in [(1, end - 1), (2, end)] {
        let lease = lease(LeaseKind::Restore, 0, expires);
        known.leases.insert(LeaseId([number; 16]), lease);
    }
    let mut expected = vec![
        Action::Remove(Key::Index(pack())),
        Action::Remove(Key::Condemned(pack())),
        Action::Remove(Key::Lease(LeaseId([1; 16]))),
    ];
    expected.sort();
    assert_eq!(todo(&known), expected);
}

#[test]
fn no_time_overflows() {
    for written in [None, Some(0), Some(NOW)] {
        let mut known = one(written);
        known.leases.insert(
            LeaseId([0; 16]),
            lease(LeaseKind::Upload, u64::MAX, u64::MAX),
        );
        for now in [0, u64::MAX] {
            let plan = Plan::new(&known, now, Duration::MAX, Duration::MAX);
            assert!(plan.todo.len() <= 1);
        }
    }
}
