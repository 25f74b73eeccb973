//! The matcher against brute force: on random systems, in situations that chance makes too seldom, and on the public
//! cases.
//!
//! The environment can ask for another amount, or for one question again:
//! `ROCFERRY_ORACLE_CASES=1000`, `ROCFERRY_ORACLE_SEED=1 ROCFERRY_ORACLE_CASE=17`. What is random runs on and on
//! by `cargo xtask soak matching`.

#[path = "oracle/answer.rs"]
mod answer;
#[path = "oracle/brute.rs"]
mod brute;
#[path = "cases/build.rs"]
mod build;
#[path = "oracle/check.rs"]
mod check;
#[path = "oracle/coverage.rs"]
mod coverage;
#[path = "oracle/decisive.rs"]
mod decisive;
#[path = "oracle/directed.rs"]
mod directed;
#[path = "oracle/generate.rs"]
mod generate;
mod machine;
#[path = "oracle/mutate.rs"]
mod mutate;
#[path = "oracle/numa.rs"]
mod numa;
#[path = "cases/public.rs"]
#[expect(dead_code, reason = "the CPUs are compared in the other test")]
mod public;
#[path = "oracle/random.rs"]
mod random;
#[path = "oracle/rules.rs"]
mod rules;
#[path = "oracle/show.rs"]
mod show;
#[path = "oracle/shrink.rs"]
mod shrink;
#[path = "oracle/valid.rs"]
mod valid;
#[path = "oracle/view.rs"]
mod view;

use std::time::{Duration, Instant};

use brute::{Choice, Question};
use coverage::Coverage;
use random::Random;
use rocferry_topology::Checks;

/// Questions of one seed.
const CASES: u64 = 100_000;
/// Fewer than this show nothing about how often a thing happens.
const ENOUGH: u64 = 50_000;
/// In how many orders of its nodes each directed situation is asked.
const ORDERS: u64 = 100;

#[test]
fn first_seed() {
    agree(1);
}

#[test]
fn second_seed() {
    agree(2);
}

/// The brute force itself: right on every public case, and then the matcher is compared there as well.
#[test]
fn public_cases() {
    for case in public::all() {
        for choice in [Choice::All, Choice::Subset] {
            let question = Question {
                usable: case.destination.ids(),
                source: case.source.clone(),
                destination: case.destination.clone(),
                choice,
                checks: Checks::default(),
            };
            let verdict = brute::judge(&question, view::Twist::Straight);
            assert_eq!(verdict.accepts(), case.fits, "{}", case.name);
            for judged in verdict.valid() {
                let pairs = verdict.pairs(judged);
                // P10 and P15 have others, which are not to be preferred.
                let same = case.source.ids() == case.destination.ids();
                assert!(
                    same || case.forced.iter().all(|pair| pairs.contains(pair)),
                    "{pairs:x?}"
                );
            }
            let best = verdict.best(&question).map(|judged| verdict.pairs(judged));
            for pair in &case.forced {
                assert!(
                    best.as_ref().is_some_and(|best| best.contains(pair)),
                    "{}",
                    case.name
                );
            }
            if let Err(fault) = check::compare(&question, &mut Random::of_case(0, 0)) {
                panic!("{}: {fault}", case.name);
            }
        }
    }
}

/// Situations that chance makes too seldom.
#[test]
fn directed() {
    for situation in directed::situations() {
        let name = situation.name;
        for order in 0..ORDERS {
            let random = &mut Random::of_case(0, order);
            let question = situation.reordered(random);
            match check::compare(&question, random) {
                Ok(verdict) => assert_eq!(verdict.accepts(), situation.fits, "{name}"),
                Err(fault) => panic!("{name}, order {order}: {fault}\n{question}"),
            }
        }
    }
}

/// Runs until the time is over. Not for every day: `cargo xtask soak matching` sets the environment.
#[test]
#[ignore = "as long as one likes; run by `cargo xtask soak matching`"]
fn soak() {
    let seconds = number("ROCFERRY_ORACLE_SECONDS").unwrap_or(10);
    let seed = number("ROCFERRY_ORACLE_SEED").unwrap_or(3);
    let begun = Instant::now();
    let mut coverage = Coverage::default();
    let mut case = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        ask(seed, case, &mut coverage);
        case += 1;
    }
    println!("seed {seed}: {coverage}");
}

/// All questions of one seed.
fn agree(seed: u64) {
    let mut coverage = Coverage::default();
    if let Some(case) = number("ROCFERRY_ORACLE_CASE") {
        let seed = number("ROCFERRY_ORACLE_SEED").unwrap_or(seed);
        println!("{}", generate::question(seed, case));
        ask(seed, case, &mut coverage);
        return;
    }
    let cases = number("ROCFERRY_ORACLE_CASES").unwrap_or(CASES);
    for case in 0..cases {
        ask(seed, case, &mut coverage);
    }
    println!("seed {seed}: {coverage}");
    if cases >= ENOUGH {
        coverage.assert_broad();
    }
}

/// One question.
fn ask(seed: u64, case: u64, coverage: &mut Coverage) {
    let question = generate::question(seed, case);
    match check::compare(&question, &mut Random::of_case(seed, case)) {
        Ok(verdict) => coverage.count(&question, &verdict),
        Err(fault) => {
            let small = shrink::shrink(question.clone());
            let small_fault = check::compare(&small, &mut Random::of_case(0, 0)).err();
            panic!(
                "Seed {seed} case {case}: {fault}\n{question}\nThe smallest like it: {}\n{small}",
                small_fault.unwrap_or_default()
            );
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}
