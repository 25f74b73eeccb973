//! The public cases: what the matcher has to answer on each of them.

#[path = "cases/build.rs"]
mod build;
mod machine;
#[path = "cases/public.rs"]
mod public;

use std::collections::{BTreeMap, BTreeSet};

use rocferry_topology::{
    ActualGpuId, Checks, GpuProperties, Mapping, Matcher, Mode, Rejection, SourceError, Switch,
    UserGpuId, Vram,
};

use build::Way::Both;
use machine::Machine;
use public::Public;

const MODES: [Mode; 2] = [Mode::All, Mode::Subset];

fn map(
    source: &Machine,
    destination: &Machine,
    mode: Mode,
    checks: Checks,
) -> Result<Mapping, Box<Rejection>> {
    let usable: Vec<ActualGpuId> = destination.ids().into_iter().map(ActualGpuId).collect();
    Matcher::new(&source.system::<UserGpuId>(), checks)
        .expect("a source without faults")
        .map(&destination.system::<ActualGpuId>(), &usable, mode)
}

fn switches(source: &Machine, destination: &Machine, mode: Mode) -> Vec<Switch> {
    let usable: Vec<ActualGpuId> = destination.ids().into_iter().map(ActualGpuId).collect();
    Matcher::new(&source.system::<UserGpuId>(), Checks::default())
        .expect("a source without faults")
        .switches(&destination.system::<ActualGpuId>(), &usable, mode)
}

fn case(name: &str) -> Public {
    let found = public::all().into_iter().find(|case| case.name == name);
    found.expect("a case of this name")
}

/// The mapping of a case, in mode All.
fn mapped(case: &Public) -> Mapping {
    map(
        &case.source,
        &case.destination,
        Mode::All,
        Checks::default(),
    )
    .expect(case.name)
}

#[test]
fn every_case_gets_its_answer() {
    for case in public::all() {
        for mode in MODES {
            let answer = map(&case.source, &case.destination, mode, Checks::default());
            assert_eq!(
                answer.is_ok(),
                case.fits,
                "{} {mode:?}: {answer:?}",
                case.name
            );
            let Ok(mapping) = answer else {
                continue;
            };
            let users: BTreeSet<u32> = mapping.iter().map(|pair| pair.0.get()).collect();
            let actuals: BTreeSet<u32> = mapping.iter().map(|pair| pair.1.get()).collect();
            // Every GPU once, and no CPU (id 0) among them.
            assert_eq!(
                users,
                case.source.ids().into_iter().collect(),
                "{}",
                case.name
            );
            assert_eq!(mapping.len(), users.len(), "{}", case.name);
            assert_eq!(actuals.len(), users.len(), "{}", case.name);
            assert!(!actuals.contains(&0), "{}", case.name);
            for (user, actual) in &case.forced {
                let got = mapping.actual(UserGpuId(*user));
                assert_eq!(got, Some(ActualGpuId(*actual)), "{} {mode:?}", case.name);
                assert_eq!(mapping.user(ActualGpuId(*actual)), Some(UserGpuId(*user)));
            }
            let cpus: Vec<(u32, u32)> = mapping
                .cpus()
                .iter()
                .map(|pair| (pair.0.get(), pair.1.get()))
                .collect();
            assert_eq!(cpus.len(), case.source.cpus.len(), "{}", case.name);
            for pair in &case.cpus {
                assert!(cpus.contains(pair), "{}: {cpus:?}", case.name);
            }
        }
    }
}

/// Every pair has the same device id.
fn assert_devices(case: &Public, mapping: &Mapping) {
    let device = |machine: &Machine, id: u32| {
        let gpu = machine.gpus.iter().find(|gpu| gpu.id == id);
        gpu.map(|gpu| gpu.properties.device_id)
    };
    for (user, actual) in mapping.iter() {
        let source = device(&case.source, user.get());
        assert!(source.is_some());
        assert_eq!(
            source,
            device(&case.destination, actual.get()),
            "{user} {actual}"
        );
    }
}

/// Each hive goes into one hive; the hive digit of each side's ids, in order.
fn hives(mapping: &Mapping) -> BTreeMap<u32, BTreeSet<u32>> {
    let mut hives: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (user, actual) in mapping.iter() {
        let digit = |id: u32| id >> 4 & 0xf;
        hives
            .entry(digit(user.get()))
            .or_default()
            .insert(digit(actual.get()));
    }
    hives
}

#[test]
fn p0_hives_change_places() {
    let case = case("P0");
    let mapping = mapped(&case);
    assert_devices(&case, &mapping);
    let crossed = BTreeMap::from([(0, BTreeSet::from([1])), (1, BTreeSet::from([0]))]);
    assert_eq!(hives(&mapping), crossed);
}

#[test]
fn p3_p12_p15_hives_stay_together() {
    for name in ["P3", "P12", "P15"] {
        let case = case(name);
        let mapping = mapped(&case);
        assert_devices(&case, &mapping);
        let kept = BTreeMap::from([(0, BTreeSet::from([0])), (1, BTreeSet::from([1]))]);
        assert_eq!(hives(&mapping), kept, "{name}");
    }
}

#[test]
fn p6_goes_by_device_id() {
    let case = case("P6");
    assert_devices(&case, &mapped(&case));
}

#[test]
fn p10_p15_keep_every_id() {
    for name in ["P10", "P15"] {
        for mode in MODES {
            let case = case(name);
            let mapping = map(&case.source, &case.destination, mode, Checks::default());
            assert!(mapping.expect(name).is_identity(), "{name}");
        }
    }
}

/// What does not fit as it is does not fit with the switches off either.
#[test]
fn no_switch_helps_p2_and_p13() {
    for name in ["P2", "P13"] {
        let case = case(name);
        for mode in MODES {
            assert_eq!(switches(&case.source, &case.destination, mode), []);
        }
    }
}

/// One GPU more than the checkpoint has: too many in mode All, and of no matter in mode Subset. Even the least
/// alike is left over only where it may be.
#[test]
fn another_gpu_matters_in_mode_all_only() {
    for case in public::all() {
        let mut destination = case.destination.clone();
        let last = destination.gpus.len() - 1;
        let mut more = destination.gpus[last].clone();
        more.node += 1;
        more.id = 0xb0ff;
        more.links.clear();
        destination.gpus.push(more);
        let all = map(&case.source, &destination, Mode::All, Checks::default());
        assert!(
            matches!(
                all.as_ref().map_err(|r| &**r),
                Err(Rejection::CountMismatch { .. })
            ),
            "{}: {all:?}",
            case.name
        );
        let subset = map(&case.source, &destination, Mode::Subset, Checks::default());
        assert_eq!(subset.is_ok(), case.fits, "{}", case.name);
        if let Ok(mapping) = subset {
            assert_eq!(mapping.user(ActualGpuId(0xb0ff)), None, "{}", case.name);
        }
    }
}

/// With the GPU that was missing, P13 fits where one may be left over.
#[test]
fn p13_fits_when_one_may_be_chosen() {
    let case = case("P13");
    let mut destination = case.destination.clone();
    let mut more = destination.gpus[2].clone();
    (more.node, more.id) = (5, 0xb004);
    more.properties.device_id = 0xd001;
    destination.gpus.push(more);
    destination.join(5, rocferry_topology::LinkKind::Pcie, 0);
    let mapping = map(&case.source, &destination, Mode::Subset, Checks::default());
    let mapping = mapping.expect("three of one kind now");
    // The two-way links of A000 and A002 have to be kept.
    assert_eq!(mapping.actual(UserGpuId(0xa000)), Some(ActualGpuId(0xb004)));
}

/// P14: one GPU on each side.
#[test]
fn p14_switches() {
    type Change = fn(&mut GpuProperties, u32);
    let switched: [(Switch, u32, u32, Change); 6] = [
        (Switch::VramSize, 100, 99, |p, v| {
            p.vram = Some(Vram {
                public: true,
                size: v.into(),
            });
        }),
        (Switch::NumGws, 64, 32, |p, v| p.num_gws = v),
        (Switch::CachesCount, 10, 9, |p, v| p.caches_count = v),
        (Switch::FwVersion, 50, 49, |p, v| p.fw_version = v),
        (Switch::SdmaFwVersion, 20, 19, |p, v| p.sdma_fw_version = v),
        (Switch::Capability, 1, 2, |p, v| p.capability = v),
    ];
    let side = |base, change: Change, value| {
        let mut machine = build::system(1, base, false, &[(0xd000, 0, Both(0))]);
        change(&mut machine.gpus[0].properties, value);
        machine
    };
    for mode in MODES {
        for (switch, high, low, change) in switched {
            let more = side(0xa000, change, high);
            let less = side(0xb000, change, low);
            let answer =
                |source, destination, checks| map(source, destination, mode, checks).is_ok();
            assert!(!answer(&more, &less, Checks::default()), "{switch}");
            for other in Switch::ALL {
                let off = Checks::default().with(other, false);
                assert_eq!(
                    answer(&more, &less, off),
                    other == switch,
                    "{switch} {other}"
                );
            }
            assert_eq!(switches(&more, &less, mode), [switch]);
            // A destination that has more is fine, if what is compared can be more.
            let fits = answer(&less, &more, Checks::default());
            assert_eq!(fits, switch != Switch::Capability, "{switch}");
        }
    }
}

/// P14: nothing turns these off.
#[test]
fn p14_without_a_switch() {
    type Change = fn(&mut GpuProperties);
    let vram = |public| Some(Vram { public, size: 100 });
    let changes: [Change; 3] = [
        |p| p.device_id = 0xd001,
        |p| p.simd_count = 4,
        |p| {
            p.vram = Some(Vram {
                public: false,
                size: 100,
            });
        },
    ];
    for change in changes {
        let mut source = build::system(1, 0xa000, false, &[(0xd000, 0, Both(0))]);
        let mut destination = build::system(1, 0xb000, false, &[(0xd000, 0, Both(0))]);
        for machine in [&mut source, &mut destination] {
            machine.gpus[0].properties.vram = vram(true);
        }
        change(&mut destination.gpus[0].properties);
        let off = |checks: Checks, switch: Switch| checks.with(switch, false);
        let off = Switch::ALL.into_iter().fold(Checks::default(), off);
        for mode in MODES {
            for checks in [Checks::default(), off] {
                let answer = map(&source, &destination, mode, checks);
                assert!(answer.is_err(), "{answer:?}");
            }
            assert_eq!(switches(&source, &destination, mode), []);
        }
    }
}

/// What cannot be matched at all is refused before any destination is looked at.
#[test]
fn sources_that_make_no_sense_are_refused() {
    let gpus = [(0xd000, 0, Both(0)); 2];
    let mut twice = build::system(1, 0xa000, false, &gpus);
    twice.gpus[1].id = twice.gpus[0].id;
    let refused = Matcher::new(&twice.system::<UserGpuId>(), Checks::default()).err();
    let gpu = UserGpuId(0xa000);
    assert_eq!(refused, Some(SourceError::DuplicateGpu { gpu }));

    let many = |count: usize| {
        let gpus = vec![(0xd000, 0, Both(0)); count];
        build::system(1, 0xa000, false, &gpus)
    };
    let refused = Matcher::new(&many(129).system::<UserGpuId>(), Checks::default()).err();
    let (gpus, limit) = (129, 128);
    assert_eq!(refused, Some(SourceError::TooManyGpus { gpus, limit }));
    let most = many(128);
    let mapping = map(&most, &most, Mode::All, Checks::default());
    assert!(mapping.expect("itself").is_identity());
}
