//! What the random questions have exercised.

use std::fmt;

use rocferry_topology::{LinkKind, Switch};

use crate::brute::{Choice, Question, Verdict, judge};
use crate::machine::Machine;
use crate::rules::{Broken, EQUAL, Rule, switched};
use crate::view::{Twist, view};

/// Of how many questions one is also asked with links read in another way.
const TWISTED: u64 = 20;

/// One line of the table.
#[derive(Debug, Default)]
struct Row {
    name: &'static str,
    /// Questions in which it is there.
    present: u64,
    /// Questions whose answer would be another one without it, out of `of`.
    decides: u64,
    of: u64,
    /// It is not to be had more often than this share of a percent.
    at_least: Percent,
}

/// Share of the questions that has to be reached: in tenths of a percent, present and deciding.
#[derive(Debug, Default)]
struct Percent {
    present: u64,
    decides: u64,
}

/// Counts over all questions.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    cases: u64,
    accepted: u64,
    rows: Vec<Row>,
}

impl Coverage {
    /// Takes in one question and what the brute force says of it.
    pub(crate) fn count(&mut self, question: &Question, verdict: &Verdict) {
        self.cases += 1;
        self.accepted += u64::from(verdict.accepts());
        let mut at = 0;
        let mut row = |name, present: bool, decides: Option<bool>, at_least: (u64, u64)| {
            if self.rows.len() == at {
                self.rows.push(Row {
                    name,
                    at_least: Percent {
                        present: at_least.0,
                        decides: at_least.1,
                    },
                    ..Row::default()
                });
            }
            let row = &mut self.rows[at];
            row.present += u64::from(present);
            row.decides += u64::from(decides == Some(true));
            row.of += u64::from(decides.is_some());
            at += 1;
        };

        let decides = |rules: &[Rule]| {
            let any = rules.iter().any(|rule| verdict.decides(*rule));
            (any_of(verdict.anywhere, rules), Some(any))
        };
        for rule in Rule::ALL {
            let (present, decided) = decides(&[*rule]);
            // Of the many that must be equal, and of the partitions, the group has to decide.
            let alone = !grouped(*rule);
            row(
                rule.name(),
                present,
                decided,
                (10, if alone { 10 } else { 0 }),
            );
        }
        let equal: Vec<Rule> = EQUAL
            .iter()
            .map(|(rule, _)| *rule)
            .chain([Rule::VramPublic])
            .collect();
        let (present, decided) = decides(&equal);
        row(
            "any property that must be equal",
            present,
            decided,
            (10, 10),
        );
        let (present, decided) = decides(&[Rule::Compute, Rule::Memory, Rule::Xcc]);
        row("any property of partitions", present, decided, (10, 10));
        for switch in Switch::ALL {
            let off = !question.checks.is_on(switch);
            let needed =
                verdict.accepts() && verdict.valid().all(|j| j.forgiven.has(switched(switch)));
            row(switch.env(), off, Some(off && needed), (10, 10));
        }
        numa(verdict, question, &mut row);
        preferences(verdict, question, &mut row);
        links(verdict, question, self.cases, &mut row);
    }

    /// Panics when questions are too one-sided to show anything.
    pub(crate) fn assert_broad(&self) {
        let share = |count: u64, of: u64| count * 1000 / of.max(1);
        let accepted = share(self.accepted, self.cases);
        assert!(
            (300..=700).contains(&accepted),
            "{} of {} accepted",
            self.accepted,
            self.cases
        );
        for row in &self.rows {
            assert!(
                share(row.present, self.cases) >= row.at_least.present
                    && share(row.decides, row.of) >= row.at_least.decides,
                "Seldom: {row:?}"
            );
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |count: u64, of: u64| {
            let tenths = count * 10_000 / of.max(1);
            format!("{}.{:02} %", tenths / 100, tenths % 100)
        };
        writeln!(
            f,
            "{} questions, {} accepted ({})\n{:50} {:>9} {:>9}",
            self.cases,
            self.accepted,
            percent(self.accepted, self.cases),
            "",
            "present",
            "decides"
        )?;
        for row in &self.rows {
            let present = percent(row.present, self.cases);
            writeln!(
                f,
                "{:50} {present:>9} {:>9}",
                row.name,
                percent(row.decides, row.of)
            )?;
        }
        Ok(())
    }
}

fn grouped(rule: Rule) -> bool {
    EQUAL.iter().any(|(equal, _)| *equal == rule)
        || matches!(
            rule,
            Rule::VramPublic | Rule::Compute | Rule::Memory | Rule::Xcc
        )
}

fn any_of(broken: Broken, rules: &[Rule]) -> bool {
    rules.iter().any(|rule| broken.has(*rule))
}

/// Which part of the NUMA rule decides.
fn numa(
    verdict: &Verdict,
    question: &Question,
    row: &mut impl FnMut(&'static str, bool, Option<bool>, (u64, u64)),
) {
    let on = question.checks.numa;
    let only = Broken::of([Rule::Numa]);
    let failed = |part: fn(&crate::numa::Numa) -> bool| {
        let close = verdict
            .judged
            .iter()
            .any(|j| j.broken == only && part(&j.numa));
        Some(!verdict.accepts() && close)
    };
    row(
        "NUMA: distinct CPUs",
        on,
        failed(|n| n.but_for_distinct),
        (10, 10),
    );
    row(
        "NUMA: better links at will",
        on,
        failed(|n| n.but_for_kind),
        (10, 10),
    );
    row(
        "NUMA: ways back to the mapped CPU",
        on,
        failed(|n| n.but_for_direction),
        (10, 1),
    );
    let upgraded = on && verdict.accepts() && verdict.valid().all(|j| !j.numa.exactly);
    row(
        "NUMA: one better link allowed",
        on,
        Some(upgraded),
        (10, 10),
    );
}

/// Which preference decides among several mappings.
fn preferences(
    verdict: &Verdict,
    question: &Question,
    row: &mut impl FnMut(&'static str, bool, Option<bool>, (u64, u64)),
) {
    let several = verdict.valid().nth(1).is_some();
    let best = verdict.best(question).map(|j| &j.map);
    let smallest = verdict.valid().next().map(|j| &j.map);
    let ids = verdict
        .sources
        .iter()
        .any(|id| verdict.destinations.contains(id));
    let kept = |map: &&Vec<usize>| {
        map.iter()
            .zip(&verdict.sources)
            .any(|(at, id)| verdict.destinations[*at] == *id)
    };
    let own = ids && best != smallest && best.as_ref().is_some_and(kept);
    row("preferred: own ids", several && ids, Some(own), (10, 10));
    let calm = !question.checks.numa && several;
    let near = calm && best != smallest && !own;
    row("preferred: NUMA, where off", calm, Some(near), (10, 10));
    let count = verdict.sources.len() == verdict.destinations.len();
    let same = best.is_some_and(|map| map.iter().enumerate().all(|(s, d)| s == *d));
    let against = !question.checks.numa
        && count
        && same
        && verdict.valid().any(|j| j.numa.holds)
        && verdict.valid().next().is_some_and(|j| !j.numa.holds);
    row(
        "preferred: same order before NUMA",
        same,
        Some(against),
        (10, 2),
    );
}

/// What there is of links, and how often reading them otherwise gives another answer.
fn links(
    verdict: &Verdict,
    question: &Question,
    case: u64,
    row: &mut impl FnMut(&'static str, bool, Option<bool>, (u64, u64)),
) {
    let other = |there: bool, twist| {
        let asked = case.is_multiple_of(TWISTED);
        asked.then(|| there && judge(question, twist).accepts() != verdict.accepts())
    };
    let (source, destination) = (&question.source, &question.destination);
    let hives = hive_sizes(source);
    row("hives", !hives.is_empty(), None, (100, 0));
    row("several hives", hives.len() > 1, None, (10, 0));
    row(
        "hive mapped into a larger one",
        verdict.accepts() && larger_hive(question, verdict),
        None,
        (10, 0),
    );
    let subset = question.choice == Choice::Subset;
    row("mode Subset", subset, None, (300, 0));
    let unusable = destination.gpus.len() > question.usable.len();
    row(
        "not usable GPUs",
        unusable,
        other(unusable, Twist::SeeUnusable),
        (10, 2),
    );
    let unchosen = subset && question.usable.len() > source.gpus.len();
    row(
        "usable GPUs that are left over",
        unchosen,
        other(unchosen, Twist::SeeUnchosen),
        (10, 2),
    );
    let xgmi = xgmi_cpus(source) || xgmi_cpus(destination);
    row(
        "XGMI to CPUs, both ways",
        xgmi,
        other(xgmi, Twist::ThroughCpus),
        (10, 2),
    );
    let missing = dangling(source) || dangling(destination);
    row(
        "links to nodes that are not there",
        missing,
        other(missing, Twist::CountMissing),
        (10, 2),
    );
    let mixed = [source, destination].iter().any(|machine| {
        let seen = seen(machine);
        seen.iter().flat_map(|s| &s.cpus).any(|a| {
            let differs = |b: &&crate::view::CpuLink| b.cpu == a.cpu && b.kind != a.kind;
            seen.iter().flat_map(|s| &s.cpus).any(|b| differs(&b))
        })
    });
    row("mixed links at one CPU", mixed, None, (10, 0));
    let twice = source.gpus.iter().chain(&destination.gpus).any(|gpu| {
        let mut links = gpu.links.clone();
        links.sort_unstable();
        links.windows(2).any(|pair| pair[0] == pair[1])
    });
    row("a link twice", twice, None, (10, 0));
    let other = [source, destination].iter().any(|machine| {
        let is_gpu = |node: u32| machine.gpus.iter().any(|gpu| gpu.node == node);
        let mut links = machine.gpus.iter().flat_map(|gpu| &gpu.links);
        links.any(|(kind, to)| matches!(kind, LinkKind::Other(_)) && is_gpu(*to))
    });
    row("links of other kinds between GPUs", other, None, (10, 0));
    let many = seen(source).iter().any(|s| s.cpus.len() > 1);
    row("a GPU with several CPU links", many, None, (10, 0));
}

/// All GPUs with all others in sight.
fn seen(machine: &Machine) -> Vec<crate::view::Seen> {
    let gpus: Vec<_> = machine.gpus.iter().collect();
    view(machine, &gpus, &gpus, Twist::Straight)
}

fn hive_sizes(machine: &Machine) -> Vec<usize> {
    let seen = seen(machine);
    let mut numbers: Vec<usize> = seen.iter().filter_map(|s| s.hive).collect();
    numbers.sort_unstable();
    numbers
        .chunk_by(|a, b| a == b)
        .map(<[usize]>::len)
        .collect()
}

/// The largest source hive is smaller than the smallest destination hive.
fn larger_hive(question: &Question, verdict: &Verdict) -> bool {
    let mut destination = question.destination.clone();
    destination
        .gpus
        .retain(|gpu| verdict.destinations.contains(&gpu.id));
    let (s, d) = (hive_sizes(&question.source), hive_sizes(&destination));
    s.iter()
        .max()
        .zip(d.iter().min())
        .is_some_and(|(s, d)| s < d)
}

fn xgmi_cpus(machine: &Machine) -> bool {
    let is_xgmi = |link: &crate::view::CpuLink| link.kind == LinkKind::Xgmi && link.two_way;
    seen(machine).iter().any(|s| s.cpus.iter().any(is_xgmi))
}

fn dangling(machine: &Machine) -> bool {
    let there = |node: u32| {
        machine.cpus.iter().any(|cpu| cpu.node == node)
            || machine.gpus.iter().any(|gpu| gpu.node == node)
    };
    let mut links = machine.gpus.iter().flat_map(|gpu| &gpu.links);
    links.any(|wire| !there(wire.1))
}
