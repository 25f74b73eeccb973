//! The steps of a move that goes well, one after the other, and the guards between them.

use rocferry_crds::v1alpha1::{
    Decision, Fence, FenceKind, Mode, SourceEvidence, SourceState, TargetOrigin, TargetState,
};

use super::rows::{begun, target};
use super::*;

fn pod(world: &mut World) -> &mut TargetPod {
    match &mut world.target {
        Some(Target {
            pod: TargetView::Present(pod),
            ..
        }) => pod,
        other => panic!("no pod of a target: {other:?}"),
    }
}

fn source(world: &mut World) -> &mut SourcePod {
    world.source.pod.as_mut().expect("a pod of the source")
}

fn prepared(mode: Mode) -> World {
    let mut world = begun(mode);
    world.source.state = SourceState::Frozen;
    world.source.fence = Some(FenceKind::Wrapper);
    world.source.image = Image::Durable;
    world
}

fn held() -> World {
    let mut world = prepared(Mode::Held);
    world.target = Some(target(TargetState::Held, false, TargetOrigin::Operator));
    world
}

/// Each step, and what is seen when it is done.
type Stage = (Step, fn(&mut World));

fn walk(mut world: World, stages: &[Stage]) {
    for (number, (step, seen)) in stages.iter().enumerate() {
        assert_eq!(next_step(&world), *step, "stage {number}: {world:#?}");
        // Nothing follows from a step that was not seen.
        assert_eq!(next_step(&world.clone()), *step);
        seen(&mut world);
    }
    assert_eq!(next_step(&world), Step::Done, "{world:#?}");
}

fn not_made() -> Target {
    Target {
        origin: TargetOrigin::Operator,
        pod: TargetView::NotMade,
        state: TargetState::Pending,
        reachable: true,
    }
}

#[test]
fn held_from_begin_to_end() {
    let mut world = begun(Mode::Held);
    world.request.finalizer = false;
    world.request.claim = Claim::Free;
    world.guarded = Guarded::None;
    let node = Some("b".to_owned());
    walk(
        world,
        &[
            (Step::AddFinalizer, |w| w.request.finalizer = true),
            (Step::Claim, |w| w.request.claim = Claim::Mine),
            (Step::Guard, |w| w.guarded = Guarded::All),
            (Step::Wait(Waiting::SourcePrepared), |w| {
                w.source.state = SourceState::Frozen;
                w.source.fence = Some(FenceKind::Wrapper);
            }),
            (Step::Wait(Waiting::ImageDurable), |w| {
                w.source.image = Image::Durable;
            }),
            (Step::ChooseTarget { node }, |w| w.target = Some(not_made())),
            (Step::CreateTarget, |w| {
                w.target.as_mut().expect("chosen").pod = TargetView::Unrecorded;
            }),
            (Step::RecordTarget, |w| {
                w.target = Some(target(TargetState::Pending, false, TargetOrigin::Operator));
            }),
            (Step::Wait(Waiting::TargetRestored), |w| {
                w.target.as_mut().expect("made").state = TargetState::Held;
            }),
            (Step::Commit, |w| w.request.decision = Decision::Committed),
            (Step::LabelTarget, |w| pod(w).labelled = true),
            (Step::Wait(Waiting::Adoption), |w| pod(w).owned = true),
            (Step::UnlabelSource, |w| source(w).labelled = false),
            (Step::Wait(Waiting::Release), |w| source(w).owned = false),
            (Step::DeleteSource, |w| source(w).deleting = true),
            (Step::Wait(Waiting::SourceGone), |w| {
                w.source.state = SourceState::Gone;
                w.source.pod = None;
            }),
            (Step::Accept(SourceEvidence::Gone), |w| {
                w.request.evidence = Some(SourceEvidence::Gone);
            }),
            (Step::Wait(Waiting::TargetThawed), |w| {
                w.target.as_mut().expect("made").state = TargetState::Thawing;
            }),
            (Step::Wait(Waiting::TargetThawed), |w| {
                w.target.as_mut().expect("made").state = TargetState::Thawed;
            }),
            (Step::OpenReadiness, |w| pod(w).ready = true),
            (Step::Settle(Outcome::Moved), |w| {
                w.request.outcome = Some(Outcome::Moved);
            }),
            (Step::Unguard, |w| w.guarded = Guarded::None),
            (Step::RemoveFinalizer, |w| w.request.finalizer = false),
        ],
    );
}

#[test]
fn stop_first_from_begin_to_end() {
    walk(
        prepared(Mode::StopFirst),
        &[
            (Step::Commit, |w| w.request.decision = Decision::Committed),
            (Step::UnlabelSource, |w| source(w).labelled = false),
            (Step::Wait(Waiting::Release), |w| {
                source(w).owned = false;
                w.owner = Owner::Present {
                    changed: false,
                    pods: Count::Missing,
                };
            }),
            (Step::DeleteSource, |w| source(w).deleting = true),
            (Step::Wait(Waiting::SourceGone), |w| {
                w.source.state = SourceState::Gone;
            }),
            (Step::Accept(SourceEvidence::Gone), |w| {
                w.request.evidence = Some(SourceEvidence::Gone);
            }),
            (Step::Wait(Waiting::SourceGone), |w| w.source.pod = None),
            (Step::Wait(Waiting::VolumesDetached), |w| {
                w.source.detached = true;
            }),
            (Step::Wait(Waiting::OwnersPod), |w| w.owners_pod = true),
            (Step::UseOwnersPod, |w| {
                w.owners_pod = false;
                w.target = Some(target(TargetState::Pending, true, TargetOrigin::Owner));
                pod(w).placed = false;
            }),
            (
                Step::PlaceTarget {
                    node: "b".to_owned(),
                },
                |w| pod(w).placed = true,
            ),
            (Step::Wait(Waiting::TargetRestored), |w| {
                w.target.as_mut().expect("used").state = TargetState::Held;
            }),
            (Step::Wait(Waiting::TargetThawed), |w| {
                w.target.as_mut().expect("used").state = TargetState::Thawed;
                pod(w).ready = true;
            }),
            (Step::Settle(Outcome::Moved), |w| {
                w.request.outcome = Some(Outcome::Moved);
            }),
            (Step::Unguard, |w| w.guarded = Guarded::None),
            (Step::RemoveFinalizer, |w| w.request.finalizer = false),
        ],
    );
}

#[test]
fn a_pod_of_nobody_is_stopped_with_its_successor_waiting() {
    let mut world = prepared(Mode::StopFirst);
    world.owner = Owner::None;
    assert_eq!(next_step(&world), Step::ChooseTarget { node: None });
    world.target = Some(target(TargetState::Pending, false, TargetOrigin::Operator));
    pod(&mut world).placed = false;
    assert_eq!(next_step(&world), Step::Commit);
    world.place = Place::Nowhere;
    assert_eq!(next_step(&world), Step::Wait(Waiting::Node));
    world.request.decision = Decision::Committed;
    assert_eq!(next_step(&world), Step::DeleteSource);
}

#[test]
fn an_abort_lets_the_source_go_on() {
    let mut world = held();
    world.request.deleting = true;
    let aborted = Outcome::Failed(Failure::Aborted(AbortReason::Cancelled));
    assert_eq!(next_step(&world), Step::Abort(AbortReason::Cancelled));
    world.request.aborted_for = Some(AbortReason::Cancelled);
    world.request.decision = Decision::Aborted;
    let stages: [Stage; 7] = [
        (Step::GiveUpTarget, |w| {
            (w.target, w.leftovers) = (None, true);
        }),
        (Step::DeleteLeftovers, |w| w.leftovers = false),
        // The agent reads the decision in the request: it has to stay until then.
        (Step::Wait(Waiting::SourceThawed), |w| {
            w.source.reachable = false;
        }),
        (Step::Wait(Waiting::SourceNode), |w| {
            w.source.state = SourceState::Thawed;
        }),
        (Step::Settle(aborted), |w| {
            w.request.outcome = Some(Outcome::Failed(Failure::Aborted(AbortReason::Cancelled)));
        }),
        (Step::Unguard, |w| w.guarded = Guarded::None),
        (Step::RemoveFinalizer, |w| w.request.finalizer = false),
    ];
    walk(world, &stages);
}

#[test]
fn an_abort_lifts_the_fence_of_a_source_that_was_killed() {
    let mut world = prepared(Mode::Held);
    world.request.decision = Decision::Aborted;
    world.source.state = SourceState::Gone;
    assert_eq!(next_step(&world), Step::Wait(Waiting::SourceThawed));
    source(&mut world).deleting = true;
    assert!(matches!(next_step(&world), Step::Settle(_)));
    world.source.pod = None;
    assert!(matches!(next_step(&world), Step::Settle(_)));
}

#[test]
fn an_abort_before_the_claim_closes_the_door() {
    let mut world = begun(Mode::Held);
    world.request.claim = Claim::Free;
    world.request.decision = Decision::Aborted;
    assert_eq!(next_step(&world), Step::Claim);
    for claim in [Claim::Other, Claim::Released] {
        world.request.claim = claim;
        assert!(matches!(next_step(&world), Step::Settle(_)), "{claim:?}");
    }
}

#[test]
fn no_commit_without_each_of_its_conditions() {
    assert_eq!(next_step(&held()), Step::Commit);
    let changes: [fn(&mut World); 14] = [
        |w| w.request.claim = Claim::Free,
        |w| w.request.claim = Claim::Other,
        |w| w.request.claim = Claim::Released,
        |w| w.request.policy = Policy::Absent,
        |w| w.request.deleting = true,
        |w| w.now = w.request.deadline,
        |w| w.guarded = Guarded::Some,
        |w| w.source.state = SourceState::Running,
        |w| w.source.state = SourceState::Overridden,
        |w| w.source.image = Image::Pending,
        |w| w.source.fence = Some(FenceKind::Freezer),
        |w| {
            w.owner = Owner::Present {
                changed: true,
                pods: Count::Enough,
            }
        },
        |w| w.target.as_mut().expect("held").state = TargetState::Restoring,
        |w| w.leftovers = true,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut world = held();
        change(&mut world);
        assert_ne!(next_step(&world), Step::Commit, "change {number}");
    }
}

#[test]
fn a_weak_fence_is_accepted_by_name_alone() {
    let mut world = held();
    world.source.fence = Some(FenceKind::Freezer);
    assert_eq!(next_step(&world), Step::Abort(AbortReason::WeakFence));
    world.request.fence = Fence::BestEffort;
    assert_eq!(next_step(&world), Step::Commit);
    // It does not do for a node that is out of reach: a reboot would start the source.
    world.request.decision = Decision::Committed;
    world.source.reachable = false;
    source(&mut world).deleting = true;
    world.target = Some(target(TargetState::Held, true, TargetOrigin::Operator));
    assert_eq!(next_step(&world), Step::Wait(Waiting::SourceNode));
    world.source.fence = Some(FenceKind::Wrapper);
    assert_eq!(next_step(&world), Step::Accept(SourceEvidence::Fenced));
}

#[test]
fn labels_move_only_under_guard() {
    let mut world = held();
    world.request.decision = Decision::Committed;
    world.guarded = Guarded::Some;
    assert_eq!(next_step(&world), Step::Guard);
    world.target = Some(target(TargetState::Held, true, TargetOrigin::Operator));
    assert_eq!(next_step(&world), Step::Guard);
    world.guarded = Guarded::All;
    assert_eq!(next_step(&world), Step::UnlabelSource);
}

#[test]
fn another_target_is_the_owners_where_it_misses_a_pod() {
    let mut world = held();
    world.request.decision = Decision::Committed;
    world.target = None;
    // The source still counts.
    assert_eq!(
        next_step(&world),
        Step::ChooseTarget {
            node: Some("b".to_owned())
        }
    );
    source(&mut world).labelled = false;
    // Scaled down meanwhile: nobody wants one, the source neither.
    assert_eq!(next_step(&world), Step::Wait(Waiting::Release));
    source(&mut world).owned = false;
    assert_eq!(next_step(&world), Step::DeleteSource);
    source(&mut world).deleting = true;
    let unwanted = Step::Settle(Outcome::Failed(Failure::ScaledDown));
    assert_eq!(next_step(&world), unwanted);
    world.owner = Owner::Present {
        changed: false,
        pods: Count::Missing,
    };
    assert_eq!(next_step(&world), Step::Wait(Waiting::OwnersPod));
    world.owners_pod = true;
    assert_eq!(next_step(&world), Step::UseOwnersPod);
    world.owner = Owner::None;
    world.owners_pod = false;
    assert_eq!(
        next_step(&world),
        Step::ChooseTarget {
            node: Some("b".to_owned())
        }
    );
}

#[test]
fn nodes_that_ran_out_end_a_move_only_before_the_commit() {
    let mut world = prepared(Mode::Held);
    world.place = Place::Exhausted;
    assert_eq!(next_step(&world), Step::Abort(AbortReason::NoNode));
    world.place = Place::Nowhere;
    assert_eq!(next_step(&world), Step::Wait(Waiting::Node));
    world.request.decision = Decision::Committed;
    world.place = Place::Exhausted;
    assert_eq!(next_step(&world), Step::Wait(Waiting::Node));
}

#[test]
fn a_target_that_may_have_run_is_never_replaced() {
    for state in [TargetState::Thawing, TargetState::Thawed] {
        let mut world = held();
        world.request.decision = Decision::Committed;
        world.request.evidence = Some(SourceEvidence::Gone);
        world.target = Some(target(state, true, TargetOrigin::Operator));
        let changes: [fn(&mut World); 5] = [
            |w| pod(w).deleting = true,
            |w| pod(w).failed = true,
            |w| w.target.as_mut().expect("made").pod = TargetView::Missing,
            |w| w.target.as_mut().expect("made").reachable = false,
            |w| w.owner = Owner::Gone,
        ];
        for change in changes {
            let mut lost = world.clone();
            change(&mut lost);
            let step = next_step(&lost);
            let settled = matches!(step, Step::Settle(_) | Step::Wait(_) | Step::OpenReadiness);
            assert!(settled, "{state:?}: {step:?}");
        }
    }
}

#[test]
fn what_the_owner_made_meanwhile_starts_after_the_end_alone() {
    let mut world = held();
    world.request.outcome = Some(Outcome::Moved);
    world.owners_pod = true;
    world.owner = Owner::Present {
        changed: false,
        pods: Count::Surplus,
    };
    assert_eq!(next_step(&world), Step::Wait(Waiting::OwnersPodGone));
    world.owner = Owner::Present {
        changed: false,
        pods: Count::Enough,
    };
    assert_eq!(next_step(&world), Step::ReleaseOwnersPod);
}

#[test]
fn a_request_that_was_deleted_before_it_began_may_go() {
    let mut world = begun(Mode::Held);
    world.request.finalizer = false;
    world.request.deleting = true;
    assert_eq!(next_step(&world), Step::Done);
}
