//! A smaller question that is answered as wrongly.

use crate::brute::Question;
use crate::check::compare;
use crate::machine::Machine;
use crate::random::Random;

/// Takes away GPUs, CPUs and links for as long as something remains wrong.
pub(crate) fn shrink(mut question: Question) -> Question {
    while let Some(smaller) = smaller(&question) {
        question = smaller;
    }
    question
}

fn smaller(question: &Question) -> Option<Question> {
    let sides: [fn(&mut Question) -> &mut Machine; 2] = [
        |question| &mut question.source,
        |question| &mut question.destination,
    ];
    let mut tries = Vec::new();
    // One GPU less on both sides keeps the counts as they are.
    for s in 0..question.source.gpus.len() {
        for d in 0..question.destination.gpus.len() {
            let mut next = question.clone();
            next.source.gpus.swap_remove(s);
            next.destination.gpus.swap_remove(d);
            tries.push(next);
        }
    }
    for side in sides {
        let machine = side(&mut question.clone()).clone();
        let mut with = |machine: Machine| {
            let mut next = question.clone();
            *side(&mut next) = machine;
            tries.push(next);
        };
        for at in 0..machine.gpus.len() {
            let mut less = machine.clone();
            less.gpus.swap_remove(at);
            with(less);
        }
        for at in 0..machine.cpus.len() {
            let mut less = machine.clone();
            less.cpus.swap_remove(at);
            with(less);
        }
        let nodes: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.node).collect();
        for node in nodes
            .into_iter()
            .chain(machine.gpus.iter().map(|gpu| gpu.node))
        {
            let links = machine
                .clone()
                .links_mut(node)
                .map_or(0, |links| links.len());
            for at in 0..links {
                let mut less = machine.clone();
                if let Some(links) = less.links_mut(node) {
                    links.swap_remove(at);
                }
                with(less);
            }
        }
    }
    tries.into_iter().find_map(|mut next| {
        let ids = next.destination.ids();
        next.usable.retain(|id| ids.contains(id));
        compare(&next, &mut Random::of_case(0, 0))
            .is_err()
            .then_some(next)
    })
}
