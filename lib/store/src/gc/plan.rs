//! What is to be done, by what is known.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use rocferry_image::manifest::PackId;

use super::knowledge::Knowledge;
use super::{Action, GcReport};
use crate::Key;
use crate::backend::Meta;
use crate::envelope::{Lease, LeaseKind};
use crate::store::milliseconds;

/// What is to be done, and how it is reported.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) report: GcReport,
    pub(super) todo: Vec<Action>,
}

/// Times in milliseconds, those with a date since 1970.
struct Times {
    now: u64,
    grace: u64,
    skew: u64,
}

/// The leases that count.
struct Leases<'a> {
    times: &'a Times,
    uploads: Vec<&'a Lease>,
    /// Packs that they name.
    packs: HashSet<PackId>,
    /// Those that rely on nobody knows which packs.
    unknown: Vec<&'a Lease>,
}

impl Plan {
    pub(super) fn new(known: &Knowledge, now: u64, grace: Duration, skew: Duration) -> Self {
        let length = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let times = Times {
            now,
            grace: length(grace),
            skew: length(skew),
        };
        let leases = Leases::new(known, &times);
        let mut plan = Self::default();
        let mut holders = BTreeSet::new();
        for (pack, meta) in &known.packs {
            let needed = known.needed.contains(pack) || leases.packs.contains(pack);
            let condemned = known.condemned.get(pack).copied();
            let (fate, held_by) = match condemned {
                None => fresh(needed, meta, &leases),
                Some(since) => doomed(needed, since, &leases),
            };
            holders.extend(held_by.into_iter().map(|lease| lease.holder.clone()));
            plan.add(*pack, meta.size, fate);
        }
        plan.report.holders = holders.into_iter().collect();
        plan.leftovers(known, &times);
        plan.todo.sort();
        plan
    }

    fn add(&mut self, pack: PackId, bytes: u64, fate: Fate) {
        let report = &mut self.report;
        let (amount, action) = match fate {
            Fate::Needed => (&mut report.needed, None),
            Fate::NeededCondemned => (&mut report.needed_condemned, None),
            Fate::Young => (&mut report.young, None),
            Fate::Condemn => (&mut report.condemned, Some(Action::Condemn(pack))),
            Fate::Confirm => (&mut report.waiting, Some(Action::Confirm(pack))),
            Fate::Wait => (&mut report.waiting, None),
            Fate::Held => (&mut report.held, None),
            Fate::Delete => (&mut report.deleted, Some(Action::Delete(pack))),
        };
        amount.add(bytes);
        self.todo.extend(action);
    }

    /// What belongs to nothing.
    fn leftovers(&mut self, known: &Knowledge, times: &Times) {
        let report = &mut self.report;
        for pack in &known.indexes {
            if !known.packs.contains_key(pack) {
                report.indexes += 1;
                self.todo.push(Action::Remove(Key::Index(*pack)));
            }
        }
        for pack in known.condemned.keys() {
            if !known.packs.contains_key(pack) {
                report.condemnations += 1;
                self.todo.push(Action::Remove(Key::Condemned(*pack)));
            }
        }
        for (id, lease) in &known.leases {
            // It does not count any more; people may still want to see who died.
            let end = lease.expires_ms.saturating_add(times.skew);
            if end.saturating_add(times.grace) < times.now {
                report.leases += 1;
                self.todo.push(Action::Remove(Key::Lease(*id)));
            }
        }
    }
}

/// What becomes of a pack.
#[derive(Clone, Copy)]
enum Fate {
    Needed,
    NeededCondemned,
    Young,
    Condemn,
    Confirm,
    Wait,
    Held,
    Delete,
}

/// One that is not condemned.
fn fresh<'a>(needed: bool, meta: &Meta, leases: &Leases<'a>) -> (Fate, Option<&'a Lease>) {
    let times = leases.times;
    if needed {
        return (Fate::Needed, None);
    }
    // Where the backend does not tell, its age is that of its condemnation.
    let written = meta.modified.map(milliseconds);
    let written = written.unwrap_or(times.now.saturating_sub(times.grace));
    let old = written.saturating_add(times.grace);
    if old > times.now {
        return (Fate::Young, None);
    }
    // Only not to send again what such an upload has: it would be safe.
    match leases.upload_before(old) {
        Some(lease) => (Fate::Young, Some(lease)),
        None => (Fate::Condemn, None),
    }
}

/// One that is condemned, since then if that can be read.
fn doomed<'a>(needed: bool, since: Option<u64>, leases: &Leases<'a>) -> (Fate, Option<&'a Lease>) {
    let times = leases.times;
    // A time that is to come, a pending one among others, would hold the pack until then.
    let latest = times.now.saturating_add(times.skew);
    let Some(since) = since.filter(|since| *since <= latest) else {
        return (Fate::Confirm, None);
    };
    if needed {
        return (Fate::NeededCondemned, None);
    }
    if since.saturating_add(times.grace) > times.now {
        return (Fate::Wait, None);
    }
    let holder = leases.unknown.first().copied();
    match holder.or_else(|| leases.upload_before(since)) {
        Some(lease) => (Fate::Held, Some(lease)),
        None => (Fate::Delete, None),
    }
}

impl<'a> Leases<'a> {
    fn new(known: &'a Knowledge, times: &'a Times) -> Self {
        let mut leases = Self {
            times,
            uploads: Vec::new(),
            packs: HashSet::new(),
            unknown: Vec::new(),
        };
        for lease in known.leases.values() {
            if lease.expires_ms.saturating_add(times.skew) <= times.now {
                continue;
            }
            leases.packs.extend(&lease.packs);
            if lease.kind == LeaseKind::Upload {
                leases.uploads.push(lease);
            }
            // Of a checkpoint that is gone nobody can say which packs it needs, unless the lease does.
            let gone = |id| !known.checkpoints.contains(id);
            if lease.packs.is_empty() && lease.checkpoints.iter().any(gone) {
                leases.unknown.push(lease);
            }
        }
        leases
    }

    /// An upload that may have begun before that time, or in the same millisecond.
    fn upload_before(&self, time: u64) -> Option<&'a Lease> {
        let latest = time.saturating_add(self.times.skew);
        let mut uploads = self.uploads.iter();
        uploads.find(|lease| lease.started_ms <= latest).copied()
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
