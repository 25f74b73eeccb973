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

/// Which GPUs of a machine a container is to be given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The checkpoint has no GPU state: none.
    NoGpus,
    /// These, by their render nodes, of so many that there are.
    On { gpus: Vec<RenderMinor>, of: usize },
    /// There are none that fit, or the search was given up: why, a line each.
    Nowhere(Vec<String>),
}

/// Chooses GPUs of `machine` for the images, among those that `may` be used.
pub(crate) fn place(
    images: &Path,
    machine: &Path,
    may: impl Fn(RenderMinor) -> bool,
    checks: Checks,
) -> Result<Place, Error> {
    Ok(match decide(images, machine, may, checks, Mode::Subset)? {
        Decided::NoGpus => Place::NoGpus,
        Decided::Fits { gpus, of } => Place::On { gpus, of },
        Decided::No(reasons) => Place::Nowhere(reasons),
    })
}

/// Matches the GPUs of the images with those of `machine` (`live`, or a copy of its topology) that the container sees.
pub(crate) fn fit(
    images: &Path,
    machine: &Path,
    sees: impl Fn(RenderMinor) -> bool,
    checks: Checks,
) -> Result<Fit, Error> {
    Ok(decide(images, machine, sees, checks, Mode::All)?.into())
}

enum Decided {
    NoGpus,
    /// Render nodes of the GPUs, and how many the machine has.
    Fits {
        gpus: Vec<RenderMinor>,
        of: usize,
    },
    No(Vec<String>),
}

impl From<Decided> for Fit {
    fn from(decided: Decided) -> Self {
        match decided {
            Decided::NoGpus => Self::NoGpus,
            Decided::Fits { .. } => Self::Fits,
            Decided::No(reasons) => Self::No(reasons),
        }
    }
}

fn decide(
    images: &Path,
    machine: &Path,
    may: impl Fn(RenderMinor) -> bool,
    checks: Checks,
    mode: Mode,
) -> Result<Decided, Error> {
    if !load::has_gpus(images)? {
        return Ok(Decided::NoGpus);
    }
    let sources = load::sources(images)?;
    let destination = load::machine(machine)?;
    let gpus = destination.gpus().filter(|gpu| may(gpu.render_minor));
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
        let taken = |id| {
            let mut mappings = verdict.each.iter().filter_map(|each| each.as_ref().ok());
            mappings.any(|mapping| mapping.user(id).is_some())
        };
        let gpus = destination.gpus().filter(|gpu| taken(gpu.id));
        return Ok(Decided::Fits {
            gpus: gpus.map(|gpu| gpu.render_minor).collect(),
            of: destination.gpus().count(),
        });
    }
    let reasons = Report::new(&sources, &matchers, &question, &verdict).against();
    Ok(Decided::No(match reasons.is_empty() {
        true => vec!["Whether the GPUs fit cannot be told".to_owned()],
        false => reasons,
    }))
}
