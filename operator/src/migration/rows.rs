//! Event × phase → what follows: each cell of the tables in docs/migration.md.

use rocferry_crds::v1alpha1::{
    Decision, Fence, FenceKind, Mode, SourceEvidence, SourceState, TargetOrigin, TargetState,
};

use super::*;
use crate::Seconds;

/// A pod of a ReplicaSet whose move goes well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The source is being frozen and dumped.
    Freezing,
    /// The target is being restored. StopFirst: committed, source gone.
    Restoring,
    /// The target is held, nothing is decided. StopFirst: source frozen, image durable.
    Ready,
    /// Committed, nothing handed over.
    Committed,
    /// Committed, source gone, target held.
    Gone,
    /// The target may have run.
    Thawing,
}

const PHASES: [Phase; 6] = [
    Phase::Freezing,
    Phase::Restoring,
    Phase::Ready,
    Phase::Committed,
    Phase::Gone,
    Phase::Thawing,
];

const STOP_FIRST: [Phase; 6] = [
    Phase::Freezing,
    Phase::Ready,
    Phase::Committed,
    Phase::Restoring,
    Phase::Gone,
    Phase::Thawing,
];

pub(super) fn target(state: TargetState, adopted: bool, origin: TargetOrigin) -> Target {
    Target {
        origin,
        pod: TargetView::Present(TargetPod {
            placed: true,
            labelled: adopted,
            owned: adopted,
            deleting: false,
            failed: false,
            ready: false,
        }),
        state,
        reachable: true,
    }
}

/// A move that was just begun: claimed and guarded.
pub(super) fn begun(mode: Mode) -> World {
    World {
        now: Seconds(100),
        request: Request {
            mode,
            fence: Fence::Required,
            deadline: Seconds(1000),
            deleting: false,
            finalizer: true,
            claim: Claim::Mine,
            decision: Decision::Undecided,
            aborted_for: None,
            evidence: None,
            outcome: None,
            policy: Policy::Present,
        },
        source: Source {
            pod: Some(SourcePod {
                labelled: true,
                owned: true,
                deleting: false,
            }),
            state: SourceState::Running,
            fence: None,
            reachable: true,
            image: Image::Pending,
            detached: false,
        },
        owner: Owner::Present {
            changed: false,
            pods: Count::Enough,
        },
        target: None,
        leftovers: false,
        owners_pod: false,
        guarded: Guarded::All,
        place: Place::Node("b".to_owned()),
    }
}

fn world(mode: Mode, phase: Phase) -> World {
    let mut world = begun(mode);
    if phase == Phase::Freezing {
        return world;
    }
    world.source.state = SourceState::Frozen;
    world.source.fence = Some(FenceKind::Wrapper);
    world.source.image = Image::Durable;
    let gone = |world: &mut World| {
        world.source.pod = None;
        world.source.state = SourceState::Gone;
        world.source.detached = true;
        world.request.evidence = Some(SourceEvidence::Gone);
    };
    let (origin, adopted) = match mode {
        Mode::Held => (TargetOrigin::Operator, false),
        Mode::StopFirst => (TargetOrigin::Owner, true),
    };
    let restored = |state, adopted| Some(target(state, adopted, origin));
    match (phase, mode) {
        (Phase::Freezing, _) | (Phase::Ready, Mode::StopFirst) => {}
        (Phase::Restoring, Mode::Held) => world.target = restored(TargetState::Restoring, adopted),
        (Phase::Restoring, Mode::StopFirst) => {
            world.request.decision = Decision::Committed;
            gone(&mut world);
            world.target = restored(TargetState::Restoring, adopted);
        }
        (Phase::Ready, Mode::Held) => world.target = restored(TargetState::Held, adopted),
        (Phase::Committed, _) => {
            world.request.decision = Decision::Committed;
            if mode == Mode::Held {
                world.target = restored(TargetState::Held, adopted);
            }
        }
        (Phase::Gone | Phase::Thawing, _) => {
            world.request.decision = Decision::Committed;
            gone(&mut world);
            let state = if phase == Phase::Gone {
                TargetState::Held
            } else {
                TargetState::Thawing
            };
            world.target = restored(state, true);
        }
    }
    world
}

fn change_target(world: &mut World, change: impl FnOnce(&mut TargetPod)) {
    if let Some(Target {
        pod: TargetView::Present(pod),
        ..
    }) = &mut world.target
    {
        change(pod);
    }
}

/// An event, and what is seen after it.
type Event = (&'static str, fn(&mut World));

const EVENTS: [Event; 15] = [
    (
        "eviction, preemption or taint: the policy refuses the deletion",
        |_| (),
    ),
    (
        "owner scaled, suspended or rolled, Job at its deadline",
        |world| {
            world.owner = Owner::Present {
                changed: true,
                pods: Count::Enough,
            };
        },
    ),
    (
        "owner deleted, and its pods by garbage collection",
        |world| {
            world.owner = Owner::Gone;
            if let Some(pod) = &mut world.source.pod {
                pod.deleting = pod.owned;
            }
            change_target(world, |pod| pod.deleting = pod.owned);
        },
    ),
    ("user deletes the source's pod", |world| {
        if let Some(pod) = &mut world.source.pod {
            pod.deleting = true;
        }
    }),
    ("user deletes the target's pod", |world| {
        change_target(world, |pod| pod.deleting = true);
    }),
    ("user deletes the request", |world| {
        world.request.deleting = true;
    }),
    ("source's node lost", |world| world.source.reachable = false),
    (
        "source's node lost for long: its pods are deleted",
        |world| {
            world.source.reachable = false;
            if let Some(pod) = &mut world.source.pod {
                pod.deleting = true;
            }
        },
    ),
    ("kubelet kills the source (eviction, reboot)", |world| {
        world.source.state = SourceState::Gone;
        if world.source.image != Image::Durable {
            world.source.image = Image::Failed;
        }
    }),
    ("target's node lost", |world| {
        if let Some(target) = &mut world.target {
            target.reachable = false;
        }
    }),
    ("kubelet evicts the target", |world| {
        change_target(world, |pod| pod.failed = true);
    }),
    ("restore fails", |world| {
        if let Some(target) = &mut world.target
            && target.state == TargetState::Restoring
        {
            target.state = TargetState::Failed;
        }
    }),
    ("a person thaws the source by override", |world| {
        world.source.state = SourceState::Overridden;
    }),
    ("store lost, or checkpoint failed", |world| {
        world.source.image = Image::Failed;
    }),
    ("time over", |world| world.now = world.request.deadline),
];

/// What a step means beside the step that there was without the event.
fn cell(world: &World, step: &Step, before: &Step) -> String {
    if step == before {
        return "goes on".to_owned();
    }
    match step {
        Step::Abort(reason) => format!("abort: {reason:?}"),
        Step::Settle(Outcome::Failed(failure)) => format!("fails: {failure:?}"),
        Step::GiveUpTarget if world.owner == Owner::Gone => {
            "both end, fails: OwnerDeleted".to_owned()
        }
        Step::GiveUpTarget => "another target".to_owned(),
        Step::Accept(SourceEvidence::Fenced) => "goes on, fenced".to_owned(),
        Step::Accept(SourceEvidence::Gone) => "goes on, gone".to_owned(),
        Step::Wait(waiting) => format!("waits: {waiting:?}"),
        other => format!("{other:?}"),
    }
}

fn table(mode: Mode, phases: &[Phase]) -> String {
    let titles: Vec<&str> = phases
        .iter()
        .map(|phase| match (phase, mode) {
            (Phase::Freezing, _) => "source being dumped",
            (Phase::Restoring, Mode::Held) => "target being restored",
            (Phase::Restoring, Mode::StopFirst) => "source gone, target being restored",
            (Phase::Ready, Mode::Held) => "target held",
            (Phase::Ready, Mode::StopFirst) => "source frozen",
            (Phase::Committed, _) => "committed",
            (Phase::Gone, _) => "source gone, target held",
            (Phase::Thawing, _) => "target may have run",
        })
        .collect();
    let mut out = format!(
        "| event | {} |\n|---|{}\n",
        titles.join(" | "),
        "---|".repeat(phases.len())
    );
    for (name, happen) in EVENTS {
        let cells: Vec<String> = phases
            .iter()
            .map(|phase| {
                let before = world(mode, *phase);
                let mut after = before.clone();
                happen(&mut after);
                if after == before && name.contains("the policy") {
                    return "goes on".to_owned();
                }
                if after == before {
                    return "-".to_owned();
                }
                cell(&after, &next_step(&after), &next_step(&before))
            })
            .collect();
        out.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
    }
    out
}

fn assert_in_docs(table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/migration.md");
    let docs = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        docs.contains(table),
        "docs/migration.md does not have this table:\n{table}"
    );
}

#[test]
fn held() {
    assert_in_docs(&table(Mode::Held, &PHASES));
}

#[test]
fn stop_first() {
    assert_in_docs(&table(Mode::StopFirst, &STOP_FIRST));
}
