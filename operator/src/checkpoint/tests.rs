//! Each state of a checkpoint and the step that follows.

use rocferry_crds::v1alpha1::{After, Retention};

use super::*;
use crate::Seconds;

/// A request that can be given to the agent.
fn world() -> World {
    World {
        now: Seconds(1000),
        request: Request {
            after: After::LeaveRunning,
            retention: Retention::Delete,
            deadline: Seconds(2000),
            ttl: None,
            deleting: false,
            finalizer: true,
            assigned: false,
            ended: None,
        },
        pod: Some(Pod {
            running: true,
            ended: false,
            deleting: false,
            replaced_by: None,
            unknown_container: None,
        }),
        store: Store::Ready,
        agent: Agent::Ready,
        busy: None,
        report: Report::Nothing,
        frozen: Frozen::No,
        data: Data::None,
    }
}

type Change = fn(&mut World);

fn check(base: Change, cases: &[(Change, Step)]) {
    for (number, (change, expected)) in cases.iter().enumerate() {
        let mut world = world();
        base(&mut world);
        change(&mut world);
        assert_eq!(next_step(&world), *expected, "case {number}: {world:#?}");
    }
}

fn pod(world: &mut World) -> &mut Pod {
    world.pod.as_mut().expect("a pod")
}

#[test]
fn before_an_agent_has_it() {
    let text = |text: &str| text.to_owned();
    check(
        |_| (),
        &[
            (|_| (), Step::Assign),
            (|w| w.request.finalizer = false, Step::AddFinalizer),
            (|w| w.pod = None, Step::Fail(Failure::PodMissing)),
            (|w| pod(w).deleting = true, Step::Fail(Failure::PodDeleting)),
            (|w| pod(w).ended = true, Step::Fail(Failure::PodGone)),
            (
                |w| pod(w).unknown_container = Some("x".to_owned()),
                Step::Fail(Failure::NoContainer {
                    container: text("x"),
                }),
            ),
            // An owner matters only if the pod is to go.
            (
                |w| pod(w).replaced_by = Some("Job".to_owned()),
                Step::Assign,
            ),
            (
                |w| {
                    pod(w).replaced_by = Some("Job".to_owned());
                    w.request.after = After::DeletePod;
                },
                Step::Fail(Failure::Replaced { owner: text("Job") }),
            ),
            (
                |w| w.store = Store::Missing,
                Step::Fail(Failure::StoreMissing),
            ),
            (
                |w| w.store = Store::NotAllowed,
                Step::Fail(Failure::StoreNotAllowed),
            ),
            (
                |w| w.store = Store::OverQuota,
                Step::Fail(Failure::OverQuota),
            ),
            (|w| w.store = Store::NotReady, Step::Wait(Waiting::Store)),
            (|w| pod(w).running = false, Step::Wait(Waiting::PodRunning)),
            (
                |w| w.busy = Some("other".to_owned()),
                Step::Wait(Waiting::OtherRequest),
            ),
            (|w| w.agent = Agent::Silent, Step::Wait(Waiting::Agent)),
            (|w| w.agent = Agent::None, Step::Fail(Failure::NoAgent)),
            (
                |w| w.agent = Agent::StoreUnknown,
                Step::Fail(Failure::StoreUnknown),
            ),
        ],
    );
}

#[test]
fn waiting_for_an_agent_ends_with_the_time() {
    check(
        |w| w.now = Seconds(2000),
        &[
            (|_| (), Step::Fail(Failure::TimedOut)),
            (|w| w.agent = Agent::Silent, Step::Fail(Failure::TimedOut)),
            (|w| pod(w).running = false, Step::Fail(Failure::TimedOut)),
            (
                |w| w.busy = Some("other".to_owned()),
                Step::Fail(Failure::TimedOut),
            ),
        ],
    );
}

#[test]
fn an_agent_has_it() {
    let why = || "CRIU failed".to_owned();
    check(
        |w| {
            w.request.assigned = true;
            w.report = Report::Working;
        },
        &[
            (|_| (), Step::Wait(Waiting::Checkpoint)),
            (
                |w| w.report = Report::Nothing,
                Step::Wait(Waiting::Checkpoint),
            ),
            // The operator's clock ends nothing that an agent has begun.
            (|w| w.now = Seconds(9000), Step::Wait(Waiting::Checkpoint)),
            (|w| w.agent = Agent::Silent, Step::Wait(Waiting::Agent)),
            (|w| w.agent = Agent::None, Step::Fail(Failure::PodGone)),
            (|w| w.pod = None, Step::Fail(Failure::PodGone)),
            (|w| pod(w).ended = true, Step::Fail(Failure::PodGone)),
            (
                |w| w.report = Report::Failed("CRIU failed".to_owned()),
                Step::Fail(Failure::Agent(why())),
            ),
            (|w| w.report = Report::Stored, Step::Succeed),
            // What is stored is stored, whatever became of the pod.
            (
                |w| {
                    w.report = Report::Stored;
                    w.pod = None;
                },
                Step::Succeed,
            ),
        ],
    );
}

#[test]
fn a_pod_is_deleted_only_when_its_checkpoint_is_stored() {
    check(
        |w| {
            w.request.assigned = true;
            w.request.after = After::DeletePod;
            w.report = Report::Stored;
        },
        &[
            (|_| (), Step::DeletePod),
            (|w| pod(w).deleting = true, Step::Wait(Waiting::PodGone)),
            (|w| w.pod = None, Step::Succeed),
            (
                |w| w.report = Report::Working,
                Step::Wait(Waiting::Checkpoint),
            ),
        ],
    );
}

#[test]
fn after_its_end() {
    check(
        |w| {
            w.request.ended = Some(Seconds(900));
            w.report = Report::Stored;
        },
        &[
            (|_| (), Step::Done),
            (
                |w| w.request.ttl = Some(Seconds(101)),
                Step::Wait(Waiting::Ttl),
            ),
            (|w| w.request.ttl = Some(Seconds(100)), Step::Expire),
            (
                |w| w.request.ttl = Some(Seconds(i64::MAX)),
                Step::Wait(Waiting::Ttl),
            ),
        ],
    );
}

#[test]
fn a_deleted_request_lets_go_first() {
    check(
        |w| {
            w.request.deleting = true;
            w.request.assigned = true;
        },
        &[
            (|_| (), Step::RemoveFinalizer),
            (|w| w.request.finalizer = false, Step::Done),
            (
                |w| w.report = Report::Working,
                Step::Wait(Waiting::PodThawed),
            ),
            (|w| w.frozen = Frozen::Yes, Step::Wait(Waiting::PodThawed)),
            (
                |w| w.frozen = Frozen::Claimed,
                Step::Wait(Waiting::Decision),
            ),
            // A node that is gone for good holds nothing; a decision has to be made all the same.
            (
                |w| {
                    w.report = Report::Working;
                    w.agent = Agent::None;
                },
                Step::RemoveFinalizer,
            ),
            (
                |w| {
                    w.frozen = Frozen::Yes;
                    w.agent = Agent::None;
                },
                Step::RemoveFinalizer,
            ),
            (
                |w| {
                    w.frozen = Frozen::Claimed;
                    w.agent = Agent::None;
                },
                Step::Wait(Waiting::Decision),
            ),
        ],
    );
}

#[test]
fn data_goes_with_the_request_unless_it_is_wanted() {
    check(
        |w| {
            w.request.deleting = true;
            w.request.ended = Some(Seconds(900));
            w.data = Data::Stored;
        },
        &[
            (|_| (), Step::DeleteData),
            (
                |w| w.request.retention = Retention::Retain,
                Step::RemoveFinalizer,
            ),
            (|w| w.data = Data::InUse, Step::Wait(Waiting::DataFree)),
            (
                |w| {
                    w.data = Data::InUse;
                    w.request.retention = Retention::Retain;
                },
                Step::Wait(Waiting::DataFree),
            ),
            (|w| w.data = Data::OutOfReach, Step::RemoveFinalizer),
        ],
    );
}
