//! Can a checkpoint be restored in a container that has its GPUs already?

use std::path::Path;

use rocferry_topology::{ActualGpuId, Checks, Matcher, Mode, RenderMinor};

use super::judge::{Outcome, Question, judge};
use super::load;
use super::report::Report;
use crate::error::Error;

/// Does a folder hold the images of a process with GPUs?
pub(crate) fn has_gpus(images: &Path) -> Result<bool, Error> {
    load::has_gpus(images)
}

/// The answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The checkpoint has no GPU state.
    NoGpus,
    /// It fits.
    Fits,
    /// It does not, or the search was given up: why, a line each.
    No(Vec<String>),
}

/// Matches the GPUs of the images with those of `machine` (`live`, or a copy of its topology) that the container sees.
pub(crate) fn fit(
    images: &Path,
    machine: &Path,
    sees: impl Fn(RenderMinor) -> bool,
    checks: Checks,
) -> Result<Fit, Error> {
    fit_as(images, machine, sees, checks, Mode::All)
}

/// Is there a way to give a container of this machine GPUs that fit?
pub(crate) fn fit_some(images: &Path, machine: &Path, checks: Checks) -> Result<Fit, Error> {
    fit_as(images, machine, |_| true, checks, Mode::Subset)
}

fn fit_as(
    images: &Path,
    machine: &Path,
    sees: impl Fn(RenderMinor) -> bool,
    checks: Checks,
    mode: Mode,
) -> Result<Fit, Error> {
    if !load::has_gpus(images)? {
        return Ok(Fit::NoGpus);
    }
    let sources = load::sources(images)?;
    let destination = load::machine(machine)?;
    let gpus = destination.gpus().filter(|gpu| sees(gpu.render_minor));
    let usable: Vec<ActualGpuId> = gpus.map(|gpu| gpu.id).collect();
    let matchers = sources.iter().map(|source| {
        Matcher::new(&source.system, checks).map_err(|error| Error::Source {
            place: images.display().to_string(),
            source: error,
        })
    });
    let matchers: Vec<Matcher> = matchers.collect::<Result<_, Error>>()?;
    let question = Question {
        destination: &destination,
        usable: &usable,
        mode,
    };
    let verdict = judge(&sources, &matchers, &question);
    if verdict.outcome() == Outcome::Fits {
        return Ok(Fit::Fits);
    }
    let reasons = Report::new(&sources, &matchers, &question, &verdict).against();
    Ok(Fit::No(match reasons.is_empty() {
        true => vec!["Whether the GPUs fit cannot be told".to_owned()],
        false => reasons,
    }))
}
