//! Large and adversarial machines: questions are decided within the matcher's own bound of steps, and rightly
//! wherever the answer can be known.
//!
//! The times are printed, not asserted; `cargo xtask bench matching` measures. What ends a search that takes too
//! long is [`Rejection::Undecided`]: the bound on steps is what is asserted. There are questions for which it is
//! too low: they have more than 16 GPUs, and parts of hives in which not everybody is linked to everybody, or
//! pairs in all combinations of eight CPUs.

#[path = "oracle/brute.rs"]
#[expect(
    dead_code,
    reason = "shared with the oracle; here nothing is tried out"
)]
mod brute;
#[path = "bounds/exact.rs"]
mod exact;
#[path = "bounds/large.rs"]
mod large;
mod machine;
#[path = "oracle/numa.rs"]
mod numa;
#[path = "oracle/random.rs"]
#[expect(dead_code, reason = "shared with the oracle")]
mod random;
#[path = "oracle/rules.rs"]
mod rules;
#[path = "oracle/valid.rs"]
mod valid;
#[path = "oracle/view.rs"]
#[expect(dead_code, reason = "shared with the oracle")]
mod view;

use std::time::Duration;

use brute::{Choice, Question};
use large::{Chip, Mesh, build, exchange_ids, permuted, permuted_rings};
use machine::Machine;
use random::Random;
use rocferry_topology::{ActualGpuId, Checks, Matcher, Mode, Rejection, Switch, UserGpuId};

/// What one family of questions has taken.
#[derive(Default)]
struct Tally {
    accepted: usize,
    rejected: usize,
    undecided: usize,
    slowest: Duration,
    /// The question that was the slowest.
    which: String,
    switches: Duration,
}

/// What this thread has used of the processor, to a few milliseconds.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

impl Tally {
    /// Prints what there was, and asserts that no more than so many of a thousand are left open.
    fn settle(&self, family: &str, open: usize) {
        let Self {
            accepted,
            rejected,
            undecided,
            slowest,
            which,
            switches,
        } = self;
        println!(
            "{family:32} {accepted:4} fit, {rejected:4} do not, {undecided:2} open; {} ms ({which}), \
             switches {} ms",
            slowest.as_millis(),
            switches.as_millis()
        );
        let all = accepted + rejected + undecided;
        assert!(
            undecided * 1000 <= open * all,
            "{family}: {undecided} of {all} undecided"
        );
    }

    /// Asks, and holds the answer against what is known of it.
    fn ask(&mut self, question: &Question, known: Option<bool>, what: &str) -> bool {
        let source = question.source.system::<UserGpuId>();
        let destination = question.destination.system::<ActualGpuId>();
        let usable: Vec<ActualGpuId> = question.usable.iter().copied().map(ActualGpuId).collect();
        let mode = match question.choice {
            Choice::All => Mode::All,
            Choice::Subset => Mode::Subset,
        };
        let matcher = Matcher::new(&source, question.checks).expect("a source without faults");
        let begun = cpu_time();
        let answer = matcher.map(&destination, &usable, mode);
        let took = cpu_time().saturating_sub(begun);
        if took > self.slowest {
            (self.slowest, self.which) = (took, what.to_owned());
        }
        if let Err(rejection) = &answer {
            if undecided(rejection) {
                self.undecided += 1;
                return false;
            }
            let begun = cpu_time();
            let switches = matcher.switches(&destination, &usable, mode);
            self.switches = self.switches.max(cpu_time().saturating_sub(begun));
            let off = |checks: Checks, switch: &Switch| checks.with(*switch, false);
            let relaxed = switches.iter().fold(question.checks, off);
            let relaxed = Matcher::new(&source, relaxed).expect("a source without faults");
            let helps = relaxed.map(&destination, &usable, mode);
            let open = helps.as_ref().is_err_and(|rejection| undecided(rejection));
            assert!(
                open || helps.is_ok() != switches.is_empty(),
                "{what}: {switches:?}"
            );
        }
        if let Ok(mapping) = &answer
            && let Err(fault) = valid::mapping(question, mapping)
        {
            panic!("{what}: {fault}");
        }
        if let Some(known) = known {
            assert_eq!(answer.is_ok(), known, "{what}: {answer:?}");
        }
        match answer {
            Ok(_) => self.accepted += 1,
            Err(_) => self.rejected += 1,
        }
        answer.is_ok()
    }
}

fn undecided(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::Undecided { .. })
}

/// Asks one question in a mode.
fn question(source: &Machine, destination: &Machine, choice: Choice, numa: bool) -> Question {
    Question {
        usable: destination.ids(),
        source: source.clone(),
        destination: destination.clone(),
        choice,
        checks: Checks::default().with(Switch::Numa, numa),
    }
}

/// A family of questions.
struct Family {
    name: &'static str,
    cpus: u32,
    mesh: Mesh,
    numa: bool,
    /// The GPUs of a checkpoint.
    chips: fn(&mut Random) -> Vec<Chip>,
    /// The right answer, where it can be known.
    known: fn(&[Chip], &[Chip]) -> Option<bool>,
    /// How many of a thousand may be left open.
    open: usize,
}

/// Machines of each family. More with `ROCFERRY_BOUNDS_SEEDS`.
fn seeds() -> u64 {
    let seeds = std::env::var("ROCFERRY_BOUNDS_SEEDS").ok();
    seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(5)
}

impl Family {
    /// For each seed: a destination that is the source in another order, then altered once and twice, in both
    /// modes, with fewer GPUs asked for and with more to choose from.
    fn run(&self) {
        let mut tally = Tally::default();
        for seed in 0..seeds() {
            let random = &mut Random::of_case(7, seed);
            let wanted = (self.chips)(random);
            let mut chips = permuted(&wanted, self.cpus, random);
            for round in 0..3 {
                if round > 0 {
                    alter(random, &mut chips);
                }
                let known = match round {
                    0 => Some(true),
                    _ => (self.known)(&wanted, &chips),
                };
                let what = format!("{} seed {seed} altered {round} times", self.name);
                self.ask(&mut tally, &wanted, &chips, known, &what, random);
            }
        }
        tally.settle(self.name, self.open);
    }

    fn ask(
        &self,
        tally: &mut Tally,
        wanted: &[Chip],
        chips: &[Chip],
        known: Option<bool>,
        what: &str,
        random: &mut Random,
    ) {
        let mut source = build(wanted, self.cpus, self.mesh);
        let mut destination = build(chips, self.cpus, self.mesh);
        if random.chance(50) {
            exchange_ids(&mut destination, random);
        }
        let all = question(&source, &destination, Choice::All, self.numa);
        let fits = tally.ask(&all, known, what);
        // With as many GPUs as there are to be had, there is nothing to choose.
        let subset = question(&source, &destination, Choice::Subset, self.numa);
        tally.ask(&subset, Some(fits), &format!("{what}, subset"));
        if self.mesh != Mesh::Full {
            return;
        }
        // Without some of the checkpoint's GPUs, what has fitted still does, and some are left over.
        if fits {
            source.gpus.retain(|_| random.chance(75));
            let fewer = question(&source, &destination, Choice::Subset, self.numa);
            tally.ask(&fewer, Some(true), &format!("{what}, fewer"));
        }
        // With others besides, alike or not.
        let mut chips = chips.to_vec();
        for _ in 0..random.between(1, 16) {
            let mut other = chips[random.below(chips.len())].clone();
            if random.chance(50) {
                other.firmware.1 += 1;
            }
            chips.push(other);
        }
        let source = build(wanted, self.cpus, self.mesh);
        let destination = build(&chips, self.cpus, self.mesh);
        let more = question(&source, &destination, Choice::Subset, self.numa);
        let known = if fits {
            Some(true)
        } else {
            (self.known)(wanted, &chips)
        };
        tally.ask(&more, known, &format!("{what}, more"));
    }
}

/// Makes a few of the GPUs worse, or exchanges what two of them are, so that it almost fits.
fn alter(random: &mut Random, chips: &mut [Chip]) {
    let (a, b) = (random.below(chips.len()), random.below(chips.len()));
    match random.below(6) {
        0 => chips[a].firmware.0 = chips[a].firmware.0.saturating_sub(1),
        1 => chips[a].firmware.1 = chips[a].firmware.1.saturating_sub(1),
        2 => {
            let firmware = chips[a].firmware;
            chips[a].firmware = std::mem::replace(&mut chips[b].firmware, firmware);
        }
        3 => chips[a].device = chips[b].device,
        4 => chips[a].two_way = false,
        _ => {
            let two_way = chips[a].two_way;
            chips[a].two_way = std::mem::replace(&mut chips[b].two_way, two_way);
        }
    }
}

/// 64 GPUs, each with a hive and a CPU of its place.
fn draw(random: &mut Random, hive: fn(u32) -> Option<u32>, cpu: fn(u32) -> u32) -> Vec<Chip> {
    let spread = random.between(0, 3);
    let chip = |n| Chip {
        cpu: cpu(n),
        hive: hive(n),
        device: random.between(0, 9) / 9,
        firmware: (random.between(0, spread), random.between(0, spread)),
        two_way: random.chance(80),
        xgmi: false,
    };
    (0..64).map(chip).collect()
}

#[test]
fn many_alike() {
    // One of 64 partitions is impossible, or none.
    let chips = |_: &mut Random| {
        vec![
            Chip {
                two_way: true,
                ..Chip::default()
            };
            64
        ]
    };
    let known = |s: &[Chip], d: &[Chip]| Some(exact::flat(s, d));
    let family = |name, mesh| Family {
        name,
        cpus: 1,
        mesh,
        numa: true,
        chips,
        known,
        open: 0,
    };
    family("64 alike", Mesh::Full).run();
    Family {
        chips: |_| {
            let chip = |n: u32| Chip {
                two_way: true,
                hive: Some(n / 8),
                ..Chip::default()
            };
            (0..64).map(chip).collect()
        },
        known: |s, d| Some(exact::hives(s, d)),
        ..family("64 alike in 8 hives", Mesh::Full)
    }
    .run();
}

#[test]
fn no_hives() {
    Family {
        name: "64 of all sorts",
        cpus: 1,
        mesh: Mesh::Full,
        numa: true,
        chips: |random| draw(random, |_| None, |_| 0),
        known: |s, d| Some(exact::flat(s, d)),
        open: 0,
    }
    .run();
}

#[test]
fn hives_that_almost_fit() {
    let known = |s: &[Chip], d: &[Chip]| Some(exact::hives(s, d));
    let family = |name, mesh, chips| Family {
        name,
        cpus: 1,
        mesh,
        numa: false,
        chips,
        known,
        open: 0,
    };
    family("32 hives of 2", Mesh::Full, |random| {
        draw(random, |n| Some(n / 2), |_| 0)
    })
    .run();
    family("16 hives of 4", Mesh::Full, |random| {
        draw(random, |n| Some(n / 4), |_| 0)
    })
    .run();
    family("8 hives of 8", Mesh::Full, |random| {
        draw(random, |n| Some(n / 8), |_| 0)
    })
    .run();
    family("16 rings of 4", Mesh::Ring, |random| {
        draw(random, |n| Some(n / 4), |_| 0)
    })
    .run();
    family("8 rings of 8", Mesh::Ring, |random| {
        draw(random, |n| Some(n / 8), |_| 0)
    })
    .run();
}

#[test]
fn cpus_that_almost_fit() {
    let known = |s: &[Chip], d: &[Chip]| Some(exact::cpus(s, d));
    let family = |name, chips| Family {
        name,
        cpus: 8,
        mesh: Mesh::Full,
        numa: true,
        chips,
        known,
        open: 0,
    };
    family("8 CPUs with 8 each", |random| {
        draw(random, |_| None, |n| n / 8)
    })
    .run();
    family("8 CPUs, some XGMI", |random| {
        let mut chips = draw(random, |_| None, |n| n / 8);
        let percent = random.between(0, 100);
        chips
            .iter_mut()
            .for_each(|chip| chip.xgmi = random.chance(percent));
        chips
    })
    .run();
}

#[test]
fn hives_in_cpus() {
    let known = |s: &[Chip], d: &[Chip]| Some(exact::hives_in_cpus(s, d));
    let family = |name, chips| Family {
        name,
        cpus: 8,
        mesh: Mesh::Full,
        numa: true,
        chips,
        known,
        open: 0,
    };
    family("8 CPUs with 4 hives of 2", |random| {
        draw(random, |n| Some(n / 2), |n| n / 8)
    })
    .run();
    family("8 CPUs with 2 hives of 4", |random| {
        draw(random, |n| Some(n / 4), |n| n / 8)
    })
    .run();
    family("8 CPUs with a hive of 8", |random| {
        draw(random, |n| Some(n / 8), |n| n / 8)
    })
    .run();
}

/// Hives with members at several CPUs: nothing nests, so only what was made to fit is known.
#[test]
fn hives_across_cpus() {
    let family = |name, mesh, chips| Family {
        name,
        cpus: 8,
        mesh,
        numa: true,
        chips,
        known: |_, _| None,
        open: 10,
    };
    family("pairs across CPUs", Mesh::Full, |random| {
        draw(random, |n| Some(n / 2), |n| n % 8)
    })
    .run();
    family("fours across CPUs", Mesh::Full, |random| {
        draw(random, |n| Some(n / 4), |n| n % 8)
    })
    .run();
    family("eights across CPUs", Mesh::Full, |random| {
        draw(random, |n| Some(n / 8), |n| n % 8)
    })
    .run();
    family("rings across CPUs", Mesh::Ring, |random| {
        draw(random, |n| Some(n / 8), |n| n % 8)
    })
    .run();
    family("fours at random", Mesh::Full, |random| {
        let mut chips = draw(random, |n| Some(n / 4), |n| n % 8);
        chips
            .iter_mut()
            .for_each(|chip| chip.cpu = random.between(0, 7));
        chips
    })
    .run();
    family("all at random", Mesh::Full, |random| {
        let mut chips = draw(random, |n| (n % 5 != 0).then_some(n / 6), |n| n % 8);
        let percent = random.between(0, 60);
        for chip in &mut chips {
            chip.cpu = random.between(0, 7);
            chip.xgmi = random.chance(percent);
        }
        chips
    })
    .run();
}

/// Part of a machine with hives that are not fully linked, so that a choice out of one can fall apart. Packing
/// pieces of rings into rings is hard, so the large ones are asked for what is bounded only.
#[test]
fn parts_of_rings() {
    for (name, cpus, size, gpus, open) in [
        ("part of 2 rings of 4", 1, 4, 8, 0),
        ("part of a ring of 8", 1, 8, 8, 0),
        ("part of a ring of 8, 2 CPUs", 2, 8, 8, 0),
        ("part of 3 rings of 4", 1, 4, 12, 0),
        ("part of 4 rings of 4", 1, 4, 16, 0),
        ("part of 2 rings of 8", 1, 8, 16, 0),
        ("part of a ring of 16", 1, 16, 16, 0),
        ("part of 16 rings of 4", 1, 4, 64, 1000),
        ("part of 8 rings of 8", 1, 8, 64, 1000),
        ("part of 4 rings of 16", 1, 16, 64, 1000),
        ("part of 8 rings, 8 CPUs", 8, 8, 64, 1000),
    ] {
        for alike in [false, true] {
            let mut tally = Tally::default();
            // What may stay open takes long.
            for seed in 0..if open > 0 { 2 } else { seeds() } {
                let random = &mut Random::of_case(8, seed);
                let mut chips = draw(random, |_| None, |_| 0);
                chips.truncate(gpus);
                for (n, chip) in (0..).zip(&mut chips) {
                    chip.hive = Some(n / size);
                    chip.cpu = n / 4 % cpus;
                    if alike {
                        (chip.device, chip.firmware, chip.two_way) = (0, (1, 1), true);
                    }
                }
                let mut source = build(&chips, cpus, Mesh::Ring);
                let keep = random.between(5, 95);
                source.gpus.retain(|_| random.chance(keep));
                let mut chips = permuted_rings(&chips, cpus, size as usize, random);
                for round in 0..3 {
                    if round > 0 {
                        alter(random, &mut chips);
                    }
                    let mut destination = build(&chips, cpus, Mesh::Ring);
                    if random.chance(50) {
                        exchange_ids(&mut destination, random);
                    }
                    let part = question(&source, &destination, Choice::Subset, cpus > 1);
                    let known = (round == 0).then_some(true);
                    let what = format!("seed {seed} altered {round} times");
                    tally.ask(&part, known, &what);
                }
            }
            tally.settle(
                &format!("{name}{}", if alike { ", alike" } else { "" }),
                open,
            );
        }
    }
}
