//! The public cases, as data: those of the C plugin's own unit test by their numbers there (P0 to P8), and those
//! on which it fails.

use crate::build::Way::{Both, One, Xgmi};
use crate::build::{Spec, peers, system};
use crate::machine::Machine;

/// A question and its answer.
#[derive(Debug)]
pub(crate) struct Public {
    pub(crate) name: &'static str,
    pub(crate) source: Machine,
    pub(crate) destination: Machine,
    /// Whether there is a mapping.
    pub(crate) fits: bool,
    /// Pairs of GPUs that every mapping has.
    pub(crate) forced: Vec<(u32, u32)>,
    /// Pairs of CPUs that every mapping has.
    pub(crate) cpus: Vec<(u32, u32)>,
}

const A: u32 = 0xa000;
const B: u32 = 0xb000;
const D0: u32 = 0xd000;
const D1: u32 = 0xd001;

/// All of them, but for P14, which is many.
pub(crate) fn all() -> Vec<Public> {
    vec![
        p0(),
        p2(),
        p3(),
        p6(),
        p8(),
        p10(),
        p11(),
        p12(),
        p13(),
        p15(),
    ]
}

impl Public {
    fn new(name: &'static str, fits: bool, source: Machine, destination: Machine) -> Self {
        Self {
            name,
            source,
            destination,
            fits,
            forced: Vec::new(),
            cpus: Vec::new(),
        }
    }
}

/// Two hives of four, the GPUs of each on both CPUs in turn.
fn two_hives(devices: (u32, u32), way: impl Fn(u32) -> crate::build::Way) -> Vec<Spec> {
    let gpu = |n| {
        let (device, hive) = if n < 4 {
            (devices.0, 0)
        } else {
            (devices.1, 1)
        };
        (device, hive, way(n))
    };
    (0..8).map(gpu).collect()
}

/// Device ids change places between two hives.
fn p0() -> Public {
    let side = |base, devices| {
        let mut machine = system(2, base, true, &two_hives(devices, |n| Both(n % 2)));
        peers(&mut machine, &[0, 1, 2, 3], &[4, 5, 6, 7]);
        peers(&mut machine, &[4, 5, 6, 7], &[0, 1, 2, 3]);
        machine
    };
    Public::new("P0", true, side(A, (D0, D1)), side(B, (D1, D0)))
}

/// The device ids ask for hives whose links to CPUs do not fit.
fn p2() -> Public {
    let side = |base, devices| {
        let way = |n| if n < 6 { Both(n % 2) } else { One(n % 2) };
        let mut machine = system(2, base, true, &two_hives(devices, way));
        peers(&mut machine, &[0, 1, 2, 3], &[4, 5]);
        peers(&mut machine, &[4, 5, 6, 7], &[0, 1, 2, 3]);
        machine
    };
    Public::new("P2", false, side(A, (D0, D1)), side(B, (D1, D0)))
}

/// One GPU of each hive has a link both ways, another one on each side.
fn p3() -> Public {
    let side = |base, both: [u32; 2]| {
        let way = |n| {
            if both.contains(&n) {
                Both(n % 2)
            } else {
                One(n % 2)
            }
        };
        system(2, base, true, &two_hives((D0, D1), way))
    };
    Public {
        forced: vec![(0xa002, 0xb000), (0xa017, 0xb015)],
        cpus: vec![(0, 0), (1, 1)],
        ..Public::new("P3", true, side(A, [2, 7]), side(B, [0, 5]))
    }
}

/// Two kinds of GPUs in another order, no hives.
fn p6() -> Public {
    let side = |base, devices: [u32; 5]| {
        let gpus = devices.map(|device| (device, 0, Both(0)));
        let mut machine = system(1, base, false, &gpus);
        peers(&mut machine, &[0, 1, 2, 3, 4], &[0, 1, 2, 3]);
        machine
    };
    let (source, destination) = ([D0, D0, D1, D0, D1], [D0, D1, D0, D0, D1]);
    Public {
        cpus: vec![(0, 0)],
        ..Public::new("P6", true, side(A, source), side(B, destination))
    }
}

/// The destination has one more GPU that its peers reach.
fn p8() -> Public {
    let side = |base, reached: &[usize]| {
        let mut machine = system(1, base, false, &[(D0, 0, Both(0)); 5]);
        peers(&mut machine, &[0, 1, 2, 3, 4], reached);
        machine
    };
    Public {
        cpus: vec![(0, 0)],
        ..Public::new("P8", true, side(A, &[0, 1, 2]), side(B, &[0, 1, 2, 3]))
    }
}

/// The same machine.
fn p10() -> Public {
    let side = || system(1, A, false, &[(D0, 0, Both(0)); 4]);
    Public {
        forced: side().ids().into_iter().map(|id| (id, id)).collect(),
        cpus: vec![(0, 0)],
        ..Public::new("P10", true, side(), side())
    }
}

/// One mapping only, with the CPUs crossed; the C plugin does not find it.
fn p11() -> Public {
    let source = [(D0, 0, Both(1)), (D0, 0, One(1)), (D0, 0, Both(0))];
    let destination = [(D0, 0, Both(1)), (D0, 0, One(0)), (D0, 0, Both(0))];
    Public {
        forced: vec![(0xa000, 0xb002), (0xa001, 0xb001), (0xa002, 0xb000)],
        cpus: vec![(0, 1), (1, 0)],
        ..Public::new(
            "P11",
            true,
            system(2, A, false, &source),
            system(2, B, false, &destination),
        )
    }
}

/// Two hives of two; the C plugin finds no mapping.
fn p12() -> Public {
    let source = [
        (D1, 0, Both(1)),
        (D1, 0, Both(0)),
        (D0, 1, Both(0)),
        (D0, 1, One(0)),
    ];
    let destination = [
        (D0, 1, Both(0)),
        (D1, 0, Both(0)),
        (D0, 1, One(0)),
        (D1, 0, Both(1)),
    ];
    let destination = system(2, B, true, &destination);
    Public {
        forced: vec![
            (0xa000, 0xb003),
            (0xa001, 0xb001),
            (0xa012, 0xb010),
            (0xa013, 0xb012),
        ],
        cpus: vec![(0, 0), (1, 1)],
        ..Public::new("P12", true, system(2, A, true, &source), destination)
    }
}

/// Too few of one kind; the C plugin never ends.
fn p13() -> Public {
    let source = [
        (D1, 0, Both(0)),
        (D1, 0, One(0)),
        (D0, 0, Both(0)),
        (D1, 0, One(0)),
    ];
    let destination = [
        (D1, 0, One(0)),
        (D1, 0, One(0)),
        (D0, 0, Both(0)),
        (D0, 0, Both(0)),
    ];
    Public::new(
        "P13",
        false,
        system(1, A, false, &source),
        system(1, B, false, &destination),
    )
}

/// CPUs are reached by XGMI and belong to no hive, on the same machine.
fn p15() -> Public {
    let gpus = [0, 0, 1, 1].map(|cpu| (D0, cpu, Xgmi(cpu)));
    let side = || system(2, A, true, &gpus);
    Public {
        forced: side().ids().into_iter().map(|id| (id, id)).collect(),
        cpus: vec![(0, 0), (1, 1)],
        ..Public::new("P15", true, side(), side())
    }
}
