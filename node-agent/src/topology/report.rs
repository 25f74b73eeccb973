//! The answer of `topology check`.

use std::fmt::Write;

use rocferry_topology::{
    ActualGpuId, GpuNode, Mapping, Matcher, Mode, Rejection, Switch, System, UserGpuId,
};
use serde::Serialize;

use super::judge::{Conflict, Outcome, Question, Verdict};
use super::load::{Process, Source};
use super::ranges::plural;

/// The answer for scripts; docs/topology.md describes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    /// `null` if it cannot be told.
    fits: Option<bool>,
    mode: Mode,
    /// That of the first process.
    mapping: Option<&'a Mapping>,
    /// GPUs to give to the container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<Gpu>,
    /// The first reason against it.
    rejection: Option<&'a Rejection>,
    /// The same for people, and everything else that there is to say against it.
    reasons: Vec<String>,
    /// These off would allow it.
    switches: &'a [Switch],
    /// Checks that were left out.
    unchecked: Vec<Switch>,
    /// For a checkpoint, each process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    processes: Vec<ProcessReport<'a>>,
    #[serde(skip)]
    sources: &'a [Source],
    #[serde(skip)]
    verdict: &'a Verdict,
    #[serde(skip)]
    question: &'a Question<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Gpu {
    gpu_id: ActualGpuId,
    node: u32,
    render_minor: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProcessReport<'a> {
    pid: u32,
    image: &'a str,
    gpus: usize,
    fits: bool,
    mapping: Option<&'a Mapping>,
    rejection: Option<&'a Rejection>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        sources: &'a [Source],
        matchers: &[Matcher],
        question: &'a Question<'a>,
        verdict: &'a Verdict,
    ) -> Self {
        let outcome = verdict.outcome();
        let fits = match outcome {
            Outcome::Fits => Some(true),
            Outcome::DoesNotFit => Some(false),
            Outcome::CannotTell => None,
        };
        let first = verdict.each.iter().find_map(|result| result.as_ref().ok());
        let mapping = first.filter(|_| outcome == Outcome::Fits);
        let gpus = mapping.into_iter().flat_map(Mapping::iter);
        let gpus = gpus.filter_map(|(_, actual)| question.destination.gpu(actual));
        let mut gpus: Vec<Gpu> = gpus
            .map(|gpu| Gpu {
                gpu_id: gpu.id,
                node: gpu.node.get(),
                render_minor: gpu.render_minor.get(),
            })
            .collect();
        gpus.sort_by_key(|gpu| gpu.node);
        let processes = sources.iter().zip(&verdict.each);
        let processes = processes.filter_map(|(source, result)| {
            let Process { pid, image } = source.process.as_ref()?;
            Some(ProcessReport {
                pid: pid.0,
                image,
                gpus: source.system.gpus().count(),
                fits: result.is_ok(),
                mapping: result.as_ref().ok(),
                rejection: result.as_ref().err().map(|rejection| &**rejection),
            })
        });
        let checks = matchers.first().map(Matcher::checks);
        let is_off = |switch: &Switch| checks.is_some_and(|checks| !checks.is_on(*switch));
        Self {
            fits,
            mode: question.mode,
            mapping,
            gpus,
            rejection: verdict.rejection(),
            reasons: reasons(sources, verdict),
            switches: &verdict.switches,
            unchecked: Switch::ALL.into_iter().filter(is_off).collect(),
            processes: processes.collect(),
            sources,
            verdict,
            question,
        }
    }

    /// What speaks against it, and what would have to be given up for it.
    pub(super) fn against(&self) -> Vec<String> {
        let mut lines = self.reasons.clone();
        if !self.switches.is_empty() {
            let switches = assignments(self.switches, " with ");
            lines.push(format!("{switches} would allow it"));
        }
        lines
    }

    /// The answer for people.
    pub(super) fn table(&self) -> String {
        let mut out = String::new();
        let who = who(self.sources);
        let usable = plural(self.question.usable.len(), "usable GPU");
        let how = match self.question.mode {
            Mode::All => format!("all {usable}"),
            Mode::Subset => usable,
        };
        match self.fits {
            Some(true) => {
                let needed = plural(self.gpus.len(), "GPU");
                put(&mut out, &format!("Fits: {needed} of {who} on {how}"));
                self.mappings(&mut out);
                self.devices(&mut out);
            }
            Some(false) => put(&mut out, &format!("Does not fit: {who} on {how}")),
            None => put(&mut out, &format!("Cannot tell: {who} on {how}")),
        }
        for reason in &self.reasons {
            put(&mut out, &format!("  {reason}"));
        }
        if let Some(Rejection::TooManyGpus { .. }) = self.rejection {
            put(&mut out, "Name those that are free with --usable");
        }
        if !self.switches.is_empty() {
            let switches = assignments(self.switches, " with ");
            put(&mut out, &format!("{switches} would allow it"));
        }
        if !self.unchecked.is_empty() {
            let switches = assignments(&self.unchecked, ", ");
            put(&mut out, &format!("Left out: {switches}"));
        }
        out
    }

    /// Pairs of GPUs and CPUs, once for all processes with the same ones.
    fn mappings(&self, out: &mut String) {
        let mut groups: Vec<(&Mapping, Vec<&Source>)> = Vec::new();
        for (source, result) in self.sources.iter().zip(&self.verdict.each) {
            let Ok(mapping) = result else { continue };
            match groups.iter_mut().find(|group| group.0 == mapping) {
                Some(group) => group.1.push(source),
                None => groups.push((mapping, vec![source])),
            }
        }
        let several = groups.len() > 1;
        for (mapping, sources) in groups {
            let Some(first) = sources.first() else {
                continue;
            };
            if several {
                let pids = sources.iter().filter_map(|source| source.process.as_ref());
                let pids: Vec<String> = pids.map(|process| process.pid.to_string()).collect();
                put(out, &format!("Process {}:", pids.join(", ")));
            }
            self.mapping(out, &first.system, mapping);
        }
    }

    fn mapping(&self, out: &mut String, source: &System<UserGpuId>, mapping: &Mapping) {
        let pairs = mapping.iter().filter_map(|(user, actual)| {
            Some((source.gpu(user)?, self.question.destination.gpu(actual)?))
        });
        let rows: Vec<[String; 2]> = pairs
            .map(|(from, to)| [name(from, &from.id), name(to, &to.id)])
            .collect();
        let width = rows
            .iter()
            .map(|row| row[0].len())
            .max()
            .unwrap_or_default();
        for [from, to] in rows {
            put(out, &format!("  GPU {from:width$}  ->  GPU {to}"));
        }
        for (from, to) in mapping.cpus() {
            put(out, &format!("  CPU {from}  ->  CPU {to}"));
        }
    }

    fn devices(&self, out: &mut String) {
        if self.question.mode == Mode::Subset {
            let devices: Vec<String> = self
                .gpus
                .iter()
                .map(|gpu| format!("/dev/dri/renderD{}", gpu.render_minor))
                .collect();
            put(
                out,
                &format!("The container needs /dev/kfd {}", devices.join(" ")),
            );
        }
    }
}

/// Everything that speaks against it, a line each, with the process where there are several.
fn reasons(sources: &[Source], verdict: &Verdict) -> Vec<String> {
    let pid = |index: usize| {
        let process = sources
            .get(index)
            .and_then(|source| source.process.as_ref());
        process.map_or_else(String::new, |process| process.pid.to_string())
    };
    let several = sources.len() > 1;
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, result) in verdict.each.iter().enumerate() {
        let Err(rejection) = result else { continue };
        for line in lines(rejection) {
            // Processes of one container mostly fail for the same reason.
            match found.iter_mut().find(|known| known.0 == line) {
                Some(known) => known.1.push(index),
                None => found.push((line, vec![index])),
            }
        }
    }
    let mut reasons: Vec<String> = found
        .into_iter()
        .map(|(line, of)| match several {
            true => {
                let word = if of.len() == 1 {
                    "Process"
                } else {
                    "Processes"
                };
                let pids: Vec<String> = of.into_iter().map(pid).collect();
                format!("{word} {}: {line}", pids.join(", "))
            }
            false => line,
        })
        .collect();
    match &verdict.together {
        None => {}
        Some(Conflict::Rejected(rejection)) => {
            let lines = lines(rejection);
            reasons.extend(
                lines
                    .into_iter()
                    .map(|line| format!("All processes together: {line}")),
            );
        }
        Some(Conflict::Inconsistent {
            node,
            first,
            second,
        }) => reasons.push(format!(
            "GPU of node {node} would become GPU {} for process {} and GPU {} for process {}",
            first.1,
            pid(first.0),
            second.1,
            pid(second.0)
        )),
        Some(Conflict::Different { first, second }) => reasons.push(format!(
            "Processes {} and {} did not have the same GPUs, as those of one container have",
            pid(*first),
            pid(*second)
        )),
    }
    reasons
}

/// The whole explanation, the short one first.
fn lines(rejection: &Rejection) -> Vec<String> {
    let short = rejection.to_string();
    let details = rejection.lines().into_iter().filter(|line| *line != short);
    std::iter::once(short.clone()).chain(details).collect()
}

fn who(sources: &[Source]) -> String {
    match sources {
        [
            Source {
                process: Some(process),
                ..
            },
        ] => format!("process {} ({})", process.pid, process.image),
        [_] => "the whole machine".to_owned(),
        several => format!("{} processes", several.len()),
    }
}

/// `KFD_A_CHECK=0 with KFD_B_CHECK=0`
fn assignments(switches: &[Switch], between: &str) -> String {
    let switches: Vec<String> = switches
        .iter()
        .map(|switch| format!("{switch}=0"))
        .collect();
    switches.join(between)
}

/// `0x70b3 (28851), renderD128, node 2`
fn name<Id>(gpu: &GpuNode<Id>, id: &(impl std::fmt::Display + Copy + Into<u32>)) -> String {
    let number: u32 = (*id).into();
    format!("{id} ({number}), {}, node {}", gpu.render_minor, gpu.node)
}

fn put(out: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{line}");
}
