//! Does a checkpoint fit on this machine? For verbs that restore processes which may use all of it.

use std::path::Path;

use rocferry_topology::{Checks, Matcher, Mode};

use super::judge::{Outcome, Question, judge};
use super::load;
use super::report::Report;
use crate::error::Error;

/// Does a folder hold the images of a process with GPUs?
pub(crate) fn has_gpus(images: &Path) -> Result<bool, Error> {
    load::has_gpus(images)
}

/// Why the GPUs of a checkpoint cannot be restored here, on GPUs of this machine that can be opened; none if they can,
/// or if there are none in it.
pub(crate) fn reasons_against(images: &Path) -> Result<Vec<String>, Error> {
    if !load::has_gpus(images)? {
        return Ok(Vec::new());
    }
    let (checks, _) = Checks::from_env_lookup(std::env::var_os::<&str>);
    let destination = load::live()?;
    let usable: Vec<_> = destination.gpus().map(|gpu| gpu.id).collect();
    let sources = load::sources(images)?;
    let matcher = |source: &load::Source| {
        Matcher::new(&source.system, checks).map_err(|error| Error::Source {
            place: images.display().to_string(),
            source: error,
        })
    };
    let matchers: Vec<Matcher> = sources.iter().map(matcher).collect::<Result<_, _>>()?;
    let question = Question {
        destination: &destination,
        usable: &usable,
        mode: Mode::Subset,
    };
    let verdict = judge(&sources, &matchers, &question);
    if verdict.outcome() == Outcome::Fits {
        return Ok(Vec::new());
    }
    let reasons = Report::new(&sources, &matchers, &question, &verdict).against();
    Ok(match reasons.is_empty() {
        true => vec!["Whether the GPUs fit cannot be told".to_owned()],
        false => reasons,
    })
}
