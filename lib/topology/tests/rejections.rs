//! Every reason for a rejection: that it is the smallest, what it names, and what it says.

mod machine;

use machine::{Cpu, Gpu, Machine};
use rocferry_topology::LinkKind::{Pcie, Xgmi};
use rocferry_topology::{
    ActualGpuId, Checks, Matcher, Mode, NodeId, Rejection, SourceError, Switch, Tie, UserGpuId,
};

/// CPUs 0 to `cpus`, then GPUs from node 10 on, each with its CPU, ids from `base` on.
fn build(base: u32, cpus: u32, gpus: &[u32]) -> Machine {
    let mut machine = Machine {
        cpus: (0..cpus)
            .map(|node| Cpu {
                node,
                links: vec![],
            })
            .collect(),
        ..Machine::default()
    };
    for (index, cpu) in (0..).zip(gpus) {
        machine.gpus.push(Gpu {
            node: 10 + index,
            id: base + index,
            ..Gpu::default()
        });
        machine.join(10 + index, Pcie, *cpu);
    }
    machine
}

fn hive(machine: &mut Machine, gpus: &[u32]) {
    for (index, a) in gpus.iter().enumerate() {
        for b in &gpus[index + 1..] {
            machine.join(10 + a, Xgmi, 10 + b);
        }
    }
}

fn reject(source: &Machine, destination: &Machine, mode: Mode) -> (Rejection, Vec<Switch>) {
    let matcher = Matcher::new(&source.system(), Checks::default()).expect("source");
    let (system, usable) = (destination.system(), destination.ids());
    let usable: Vec<ActualGpuId> = usable.into_iter().map(ActualGpuId).collect();
    let rejection = matcher
        .map(&system, &usable, mode)
        .expect_err("does not fit");
    assert!(!matcher.fits(&system, &usable, mode));
    (*rejection, matcher.switches(&system, &usable, mode))
}

fn users(ids: &[u32]) -> Vec<UserGpuId> {
    ids.iter().copied().map(UserGpuId).collect()
}

#[test]
fn counts_and_names() {
    let three = build(0xa0, 1, &[0, 0, 0]);
    let two = build(0xb0, 1, &[0, 0]);
    let text = |source, destination, mode| reject(source, destination, mode).0.to_string();
    assert_eq!(
        text(&three, &two, Mode::All),
        "Checkpoint holds 3 GPUs, but 2 are usable here"
    );
    assert_eq!(
        text(&two, &three, Mode::All),
        "Checkpoint holds 2 GPUs, but 3 are usable here"
    );
    assert_eq!(
        text(&three, &two, Mode::Subset),
        "Checkpoint holds 3 GPUs, but only 2 are free here"
    );
    let matcher = Matcher::new(&two.system(), Checks::default()).expect("source");
    for (usable, expected) in [
        ([0xb0, 0xb0], "GPU 0x00b0 is given twice as usable"),
        (
            [0xb0, 0xbb],
            "GPU 0x00bb is usable, but not once in the topology",
        ),
    ] {
        let usable = usable.map(ActualGpuId);
        let rejection = matcher
            .map(&two.system(), &usable, Mode::All)
            .expect_err("refused");
        assert_eq!(rejection.to_string(), expected);
        assert_eq!(rejection.lines(), [expected]);
    }
}

#[test]
fn checkpoints_that_make_no_sense() {
    let refused = |machine: &Machine| {
        Matcher::new(&machine.system(), Checks::default()).expect_err("refused")
    };
    let mut twice = build(0xa0, 1, &[0, 0]);
    twice.gpus[1].id = 0xa0;
    assert_eq!(
        refused(&twice),
        SourceError::DuplicateGpu {
            gpu: UserGpuId(0xa0)
        }
    );
    let mut twice = build(0xa0, 1, &[0, 0]);
    twice.gpus[1].node = 10;
    assert_eq!(
        refused(&twice),
        SourceError::DuplicateNode { node: NodeId(10) }
    );
    let many = build(0xa0, 1, &[0; 129]);
    assert_eq!(
        refused(&many),
        SourceError::TooManyGpus {
            gpus: 129,
            limit: 128
        }
    );
    let matcher = Matcher::new(&build(1, 1, &[0]).system(), Checks::default()).expect("source");
    let usable: Vec<ActualGpuId> = many.ids().into_iter().map(ActualGpuId).collect();
    let rejection = matcher
        .map(&many.system(), &usable, Mode::Subset)
        .expect_err("refused");
    assert_eq!(
        rejection.to_string(),
        "129 GPUs are usable here, more than 128"
    );
}

#[test]
fn xnack() {
    let mut source = build(0xa0, 1, &[0]);
    let mut destination = build(0xb0, 1, &[0]);
    source.xnack = Some(true);
    destination.xnack = Some(false);
    let (rejection, switches) = reject(&source, &destination, Mode::All);
    assert_eq!(rejection, Rejection::Xnack);
    assert!(switches.is_empty());
    for (here, there) in [
        (Some(true), None),
        (Some(true), Some(true)),
        (Some(false), Some(false)),
        (None, Some(false)),
    ] {
        source.xnack = here;
        destination.xnack = there;
        let matcher = Matcher::new(&source.system(), Checks::default()).expect("source");
        assert!(matcher.fits(&destination.system(), &[ActualGpuId(0xb0)], Mode::All));
    }
}

#[test]
fn a_gpu_without_candidate_is_named_with_every_difference() {
    let mut source = build(0xa0, 1, &[0, 0]);
    let mut destination = build(0xb0, 1, &[0, 0]);
    source.gpus[1].properties.device_id = 0x740f;
    source.gpus[1].properties.fw_version = 9;
    destination.gpus[0].properties.fw_version = 8;
    let (rejection, switches) = reject(&source, &destination, Mode::All);
    assert!(switches.is_empty());
    assert_eq!(
        rejection.to_string(),
        "No usable GPU can replace 0x00a1; GPU 0x00a1 on 0x00b0: device_id differs: checkpoint 0x740f, here 0x0 \
         and 1 more difference"
    );
    assert_eq!(
        rejection.lines(),
        [
            "GPU 0x00a1 cannot use 0x00b0: device_id differs: checkpoint 0x740f, here 0x0; fw_version too small: \
             checkpoint 9, here 8 (KFD_FW_VER_CHECK=0 allows it)",
            "GPU 0x00a1 cannot use 0x00b1: device_id differs: checkpoint 0x740f, here 0x0; fw_version too small: \
             checkpoint 9, here 0 (KFD_FW_VER_CHECK=0 allows it)",
        ]
    );
}

#[test]
fn links_are_differences_like_others() {
    // Two CPU links where there is one; XGMI where there is PCIe; both ways where there is one.
    let mut source = build(0xa0, 2, &[0]);
    source.join(10, Xgmi, 1);
    let destination = build(0xb0, 2, &[0]);
    let (rejection, _) = reject(&source, &destination, Mode::All);
    assert_eq!(
        rejection.lines(),
        [
            "GPU 0x00a0 cannot use 0x00b0: valid_links too small: checkpoint 2, here 1; cpu_link too small: \
          checkpoint XGMI both ways, here PCIe both ways"
        ]
    );
    let source = build(0xa0, 1, &[0]);
    let mut destination = build(0xb0, 1, &[0]);
    destination.cpus[0].links.clear();
    let (rejection, switches) = reject(&source, &destination, Mode::All);
    assert!(switches.is_empty());
    assert_eq!(
        rejection.lines(),
        [
            "GPU 0x00a0 cannot use 0x00b0: cpu_link too small: checkpoint PCIe both ways, here PCIe one way"
        ]
    );
}

#[test]
fn gpus_that_share_too_few_candidates() {
    let mut source = build(0xa0, 1, &[0, 0, 0]);
    let mut destination = build(0xb0, 1, &[0, 0, 0]);
    source.gpus[0].properties.num_gws = 64;
    source.gpus[2].properties.num_gws = 64;
    destination.gpus[1].properties.num_gws = 64;
    let (rejection, switches) = reject(&source, &destination, Mode::All);
    assert_eq!(switches, [Switch::NumGws]);
    assert_eq!(
        rejection.to_string(),
        "2 GPUs of the checkpoint fit only 1 usable ones: 0x00a0, 0x00a2; GPU 0x00a0 on 0x00b0: num_gws too small: \
         checkpoint 64, here 0 (KFD_NUM_GWS_CHECK=0 allows it)"
    );
    assert_eq!(rejection.lines().len(), 4);
    assert_eq!(
        rejection.lines()[1],
        "GPU 0x00a0 could use 0x00b1, needed by other GPUs"
    );
}

#[test]
fn a_hive_that_fits_nowhere() {
    let mut source = build(0xa0, 1, &[0; 4]);
    hive(&mut source, &[0, 1, 2]);
    let mut destination = build(0xb0, 1, &[0; 5]);
    hive(&mut destination, &[0, 1]);
    hive(&mut destination, &[2, 3]);
    // The number of links is not what decides.
    for gpu in &mut destination.gpus {
        gpu.links.push((Pcie, 0));
    }
    let (rejection, switches) = reject(&source, &destination, Mode::Subset);
    assert!(switches.is_empty());
    assert_eq!(
        rejection.lines(),
        [
            "GPUs 0x00a0, 0x00a1, 0x00a2 of the checkpoint are one hive, and no hive here takes more than 2 of them",
            "Hive of 0x00b0, 0x00b1 takes 2 of them",
            "Hive of 0x00b2, 0x00b3 takes 2 of them",
        ]
    );
    let mut apart = destination.clone();
    for gpu in &mut apart.gpus {
        gpu.links.retain(|link| link.0 == Pcie);
        gpu.links.push((Pcie, 0));
    }
    let (rejection, _) = reject(&source, &apart, Mode::Subset);
    assert_eq!(
        rejection.to_string(),
        "GPUs 0x00a0, 0x00a1, 0x00a2 of the checkpoint are one hive, and there is no hive here"
    );
}

#[test]
fn hives_that_need_the_same_one() {
    let mut source = build(0xa0, 1, &[0; 4]);
    hive(&mut source, &[0, 1]);
    hive(&mut source, &[2, 3]);
    let mut destination = build(0xb0, 1, &[0; 4]);
    hive(&mut destination, &[0, 1, 2, 3]);
    let (rejection, switches) = reject(&source, &destination, Mode::All);
    assert!(switches.is_empty());
    assert_eq!(
        rejection,
        Rejection::TooFewHives {
            hives: vec![users(&[0xa0, 0xa1]), users(&[0xa2, 0xa3])],
            candidates: 1,
        }
    );
    assert_eq!(
        rejection.to_string(),
        "2 hives of the checkpoint fit only 1 here: (0x00a0, 0x00a1), (0x00a2, 0x00a3)"
    );
}

#[test]
fn a_cpu_that_fits_nowhere() {
    let source = build(0xa0, 2, &[0, 0, 0, 1]);
    let destination = build(0xb0, 2, &[0, 0, 1, 1]);
    let (rejection, switches) = reject(&source, &destination, Mode::All);
    assert_eq!(switches, [Switch::Numa]);
    assert_eq!(
        rejection.lines(),
        [
            "GPUs 0x00a0, 0x00a1, 0x00a2 of the checkpoint share CPU 0, and no CPU here takes more than 2 of them \
             (KFD_NUMA_CHECK=0 allows it)",
            "CPU 0 with 0x00b0, 0x00b1 takes 2 of them",
            "CPU 1 with 0x00b2, 0x00b3 takes 2 of them",
        ]
    );
}

#[test]
fn cpus_that_need_the_same_one() {
    let source = build(0xa0, 2, &[0, 1]);
    let destination = build(0xb0, 2, &[1, 1]);
    let (rejection, switches) = reject(&source, &destination, Mode::All);
    assert_eq!(switches, [Switch::Numa]);
    assert_eq!(
        rejection.to_string(),
        "2 CPUs of the checkpoint (0, 1) fit only 1 here (KFD_NUMA_CHECK=0 allows it)"
    );
}

#[test]
fn one_link_of_a_cpu_may_become_a_better_one() {
    let xgmi = |base, gpus: &[u32]| {
        let mut machine = build(base, 1, &[0; 2]);
        for gpu in gpus {
            let node = 10 + gpu;
            machine.gpus[*gpu as usize].links = vec![(Xgmi, 0)];
            machine.cpus[0].links.retain(|link| link.1 != node);
            machine.wire(0, Xgmi, node);
        }
        machine
    };
    let source = xgmi(0xa0, &[]);
    for (better, fits) in [(&[0][..], true), (&[1], true), (&[0, 1], false)] {
        let destination = xgmi(0xb0, better);
        let matcher = Matcher::new(&source.system(), Checks::default()).expect("source");
        let usable = [ActualGpuId(0xb0), ActualGpuId(0xb1)];
        assert_eq!(
            matcher.fits(&destination.system(), &usable, Mode::All),
            fits
        );
        // The other way round nothing is better.
        let matcher = Matcher::new(&destination.system(), Checks::default()).expect("source");
        let usable = [ActualGpuId(0xa0), ActualGpuId(0xa1)];
        assert!(!matcher.fits(&source.system(), &usable, Mode::All));
    }
    let (rejection, switches) = reject(&source, &xgmi(0xb0, &[0, 1]), Mode::All);
    assert_eq!(switches, [Switch::Numa]);
    assert_eq!(
        rejection.to_string(),
        "GPUs 0x00a0, 0x00a1 of the checkpoint cannot all be placed with CPUs kept together (KFD_NUMA_CHECK=0 allows it)"
    );
}

/// Hives could be kept, CPUs could be kept, but not both; a fifth GPU has nothing to do with it.
#[test]
fn rules_that_clash_name_the_gpus_that_clash() {
    let mut source = build(0xa0, 2, &[0, 0, 1, 1, 0]);
    source.gpus[4].properties.device_id = 7;
    hive(&mut source, &[0, 1]);
    hive(&mut source, &[2, 3]);
    let mut destination = build(0xb0, 2, &[0, 0, 1, 1, 0]);
    destination.gpus[4].properties.device_id = 7;
    hive(&mut destination, &[0, 2]);
    hive(&mut destination, &[1, 3]);
    let (rejection, switches) = reject(&source, &destination, Mode::All);
    assert_eq!(switches, [Switch::Numa]);
    assert_eq!(
        rejection,
        Rejection::Together {
            gpus: users(&[0xa2, 0xa3]),
            ties: vec![Tie::Hives, Tie::Numa],
        }
    );
    assert_eq!(
        rejection.to_string(),
        "GPUs 0x00a2, 0x00a3 of the checkpoint cannot all be placed with hives kept together and CPUs kept together \
         (KFD_NUMA_CHECK=0 allows it)"
    );
}

/// Three GPUs in a row: the two ends are one hive only with the middle.
#[test]
fn links_count_among_the_chosen_gpus() {
    let mut source = build(0xa0, 1, &[0, 0]);
    hive(&mut source, &[0, 1]);
    let mut destination = build(0xb0, 1, &[0, 0, 0]);
    destination.join(10, Xgmi, 11);
    destination.join(11, Xgmi, 12);
    destination.gpus[1].properties.device_id = 7;
    let (rejection, switches) = reject(&source, &destination, Mode::Subset);
    assert!(switches.is_empty());
    assert_eq!(
        rejection,
        Rejection::Together {
            gpus: users(&[0xa0, 0xa1]),
            ties: vec![Tie::Links],
        }
    );
    assert_eq!(
        rejection.to_string(),
        "GPUs 0x00a0, 0x00a1 of the checkpoint cannot all be placed with their links to each other kept"
    );
}

/// What programs read: the kind of reason, and values as numbers.
#[test]
fn reasons_are_structured() {
    let mut source = build(0xa0, 1, &[0]);
    source.gpus[0].properties.num_gws = 64;
    let (rejection, _) = reject(&source, &build(0xb0, 1, &[0]), Mode::All);
    let expected = serde_json::json!({
        "reason": "no-candidate",
        "gpus": [{
            "gpu": 0xa0,
            "rejected": [{
                "gpu": 0xb0,
                "differences": [{
                    "property": "num_gws",
                    "source": 64,
                    "destination": 0,
                    "rule": "at-least",
                    "switch": "KFD_NUM_GWS_CHECK",
                }],
            }],
            "contended": [],
        }],
    });
    assert_eq!(serde_json::to_value(&rejection).expect("JSON"), expected);
}
