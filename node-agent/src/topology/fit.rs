//! Does a checkpoint fit on this machine? For verbs that restore.

use std::path::Path;

use rocferry_topology::{Checks, Matcher, Mode};

use super::judge::{Outcome, Question, judge};
use super::load::{self, images};
use super::report::Report;
use crate::error::Error;

/// Does a folder hold the images of a process with GPUs?
pub(crate) fn has_gpus(images: &Path) -> Result<bool, Error> {
    Ok(!images::find(images)?.is_empty())
}

/// Why the GPUs of a checkpoint cannot be restored here, on GPUs of this machine that can be opened; none if they can,
/// or if there are none in it.
pub(crate) fn reasons_against(dir: &Path) -> Result<Vec<String>, Error> {
    if !has_gpus(dir)? {
        return Ok(Vec::new());
    }
    let (checks, _) = Checks::from_env_lookup(std::env::var_os::<&str>);
    let destination = load::live()?;
    let usable: Vec<_> = destination.gpus().map(|gpu| gpu.id).collect();
    let sources = images::read(dir)?;
    let matcher = |source: &load::Source| {
        Matcher::new(&source.system, checks).map_err(|source| Error::Source {
            place: dir.display().to_string(),
            source,
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
    let reasons = Report::new(&sources, &matchers, &question, &verdict).into_reasons();
    Ok(match reasons.is_empty() {
        true => vec!["Whether the GPUs fit cannot be told".to_owned()],
        false => reasons,
    })
}
