//! The matcher's answers, held against those of the brute force.

use rocferry_topology::{
    ActualGpuId, Mapping, Matcher, Mode, Rejection, Switch, System, UserGpuId,
};

use crate::brute::{Choice, Question, Verdict, judge};
use crate::random::Random;
use crate::valid;
use crate::view::Twist;

/// What is wrong with an answer.
type Fault = String;

/// Asks the brute force and the matcher, and tells what they disagree about.
pub(crate) fn compare(question: &Question, random: &mut Random) -> Result<Verdict, Fault> {
    let verdict = judge(question, Twist::Straight);
    let source = question.source.system::<UserGpuId>();
    let destination = question.destination.system::<ActualGpuId>();
    let usable: Vec<ActualGpuId> = question.usable.iter().copied().map(ActualGpuId).collect();
    let mode = mode(question.choice);

    let matcher = Matcher::new(&source, question.checks)
        .map_err(|error| format!("The source is refused: {error}"))?;
    let answer = matcher.map(&destination, &usable, mode);
    match (&answer, verdict.best(question)) {
        (Ok(mapping), Some(best)) => {
            let (got, wanted) = (pairs(mapping), verdict.pairs(best));
            if let Err(fault) = valid::mapping(question, mapping) {
                return Err(format!(
                    "{got:x?} is invalid: {fault}; {wanted:x?} is the one to prefer"
                ));
            }
            if got != wanted {
                return Err(format!("{got:x?} instead of the preferred {wanted:x?}"));
            }
        }
        (Err(_), None) => {}
        (Ok(mapping), None) => {
            let fault = valid::mapping(question, mapping).err().unwrap_or_default();
            return Err(format!("Accepted with {:x?}. {fault}", pairs(mapping)));
        }
        (Err(rejection), Some(best)) => {
            let wanted = verdict.pairs(best);
            return Err(format!(
                "Rejected ({rejection}), though {wanted:x?} is valid"
            ));
        }
    }
    if let Err(rejection) = &answer {
        explained(rejection)?;
    }
    if matcher.fits(&destination, &usable, mode) != answer.is_ok() {
        return Err("The answers with and without a mapping differ".to_owned());
    }

    let switches = matcher.switches(&destination, &usable, mode);
    self::switches(question, &verdict, &switches)?;
    if !switches.is_empty() {
        let off = |checks: rocferry_topology::Checks, switch: &Switch| checks.with(*switch, false);
        let relaxed = switches.iter().fold(question.checks, off);
        let again = Matcher::new(&source, relaxed).map(|m| m.map(&destination, &usable, mode));
        if !matches!(again, Ok(Ok(_))) {
            return Err(format!("Rejected even with {switches:?} off"));
        }
    }

    // In any other order of nodes, links and GPUs the answer is the same. Half of the questions show it.
    if random.chance(50) {
        return Ok(verdict);
    }
    let (mut source, mut destination, mut usable) = (source, destination, usable);
    reorder(&mut source, random);
    reorder(&mut destination, random);
    random.shuffle(&mut usable);
    let again = Matcher::new(&source, question.checks)
        .map_err(|error| format!("The source is refused in another order: {error}"))?
        .map(&destination, &usable, mode);
    if again != answer {
        return Err(format!("In another order {again:?} instead of {answer:?}"));
    }
    Ok(verdict)
}

/// The library's word.
pub(crate) const fn mode(choice: Choice) -> Mode {
    match choice {
        Choice::All => Mode::All,
        Choice::Subset => Mode::Subset,
    }
}

fn pairs(mapping: &Mapping) -> Vec<(u32, u32)> {
    let pairs = mapping
        .iter()
        .map(|(user, actual)| (user.get(), actual.get()));
    pairs.collect()
}

/// Every rejection says something, in one line and in several.
fn explained(rejection: &Rejection) -> Result<(), Fault> {
    let line = rejection.to_string();
    if matches!(rejection, Rejection::Undecided { .. }) {
        return Err(format!("No decision: {line}"));
    }
    if line.is_empty() || line.contains('\n') || rejection.lines().is_empty() {
        return Err(format!("Badly explained: {line:?}"));
    }
    Ok(())
}

/// The switches are really needed, really enough, and as few as can be.
fn switches(question: &Question, verdict: &Verdict, switches: &[Switch]) -> Result<(), Fault> {
    if let Some(off) = switches.iter().find(|s| !question.checks.is_on(**s)) {
        return Err(format!("{off} is off already"));
    }
    let fewest = if verdict.accepts() {
        None
    } else {
        verdict.fewest_switches()
    };
    match fewest {
        None if switches.is_empty() => Ok(()),
        None => Err(format!(
            "{switches:?} are named, and none helps or is needed"
        )),
        Some(_) if !verdict.allowed_by(switches) => {
            Err(format!("{switches:?} do not allow it, though some do"))
        }
        Some(fewest) if switches.len() as u64 != u64::from(fewest) => {
            Err(format!("{switches:?} are named, and {fewest} are enough"))
        }
        Some(_) => Ok(()),
    }
}

/// Puts nodes and links into any other order.
fn reorder<Id>(system: &mut System<Id>, random: &mut Random) {
    random.shuffle(&mut system.nodes);
    for node in &mut system.nodes {
        random.shuffle(match node {
            rocferry_topology::Node::Cpu(cpu) => &mut cpu.links,
            rocferry_topology::Node::Gpu(gpu) => &mut gpu.links,
        });
    }
}
