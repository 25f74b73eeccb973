//! `topology check`: does a checkpoint fit?

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use rocferry_topology::{ActualGpuId, Checks, GpuNode, Matcher, Mode, Switch, System};

use super::judge::{Outcome, Question, judge};
use super::load::{self, Source};
use super::report::Report;
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::format::{Format, to_json, to_yaml};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 it fits, 1 it does not fit, 2 that cannot be told: a file cannot be read or makes no sense, \
the search was given up, or the arguments are wrong."
)]
pub(crate) struct Args {
    /// What is to be restored: the folder that CRIU dumped into. Or a machine, as with --to: then all its GPUs are
    /// to be placed
    #[arg(long, value_name = "IMAGE|FILE")]
    from: PathBuf,
    /// Where: `live` (this machine), a copy of a /sys/class/kfd/kfd/topology, a folder with such a tree at
    /// sys/class/kfd/kfd/topology, or a file with what `topology show -o json` (or yaml) has printed
    #[arg(long, value_name = "DIR|FILE")]
    to: PathBuf,
    /// GPUs that may be used, by gpu_id (decimal, or hexadecimal with 0x) or render node (renderD128). Default: all that
    /// can be read
    #[arg(long, value_name = "ID,ID…", value_delimiter = ',')]
    usable: Option<Vec<Name>>,
    /// Choose among the usable GPUs: the question before a container exists (default)
    #[arg(long, conflicts_with = "all")]
    subset: bool,
    /// Use all the usable GPUs: the question in a container that has its GPUs
    #[arg(long)]
    all: bool,
    /// Leave a check out, as the environment variable of the same name set to 0 does
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    disable_check: Vec<CheckName>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// A GPU as people name it.
#[derive(Clone, Debug)]
enum Name {
    Id(ActualGpuId),
    Minor(u32),
}

impl std::str::FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = if let Some(minor) = text.strip_prefix("renderD") {
            minor.parse().ok().map(Self::Minor)
        } else if let Some(digits) = text.strip_prefix("0x") {
            let id = u32::from_str_radix(digits, 16).ok();
            id.map(|id| Self::Id(ActualGpuId(id)))
        } else {
            text.parse().ok().map(|id| Self::Id(ActualGpuId(id)))
        };
        // The parsers of numbers take a sign.
        number.filter(|_| !text.contains('+')).ok_or_else(|| {
            "expected a gpu_id (28851, 0x70b3) or a render node (renderD128)".to_owned()
        })
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Minor(minor) => write!(f, "renderD{minor}"),
        }
    }
}

/// A check by its short name or that of its environment variable.
#[derive(Clone, Copy, Debug)]
struct CheckName(Switch);

impl CheckName {
    const ALL: [Self; Switch::ALL.len()] = {
        let mut all = [Self(Switch::Numa); Switch::ALL.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = Self(Switch::ALL[index]);
            index += 1;
        }
        all
    };
}

impl ValueEnum for CheckName {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let name = match self.0 {
            Switch::Capability => "capability",
            Switch::VramSize => "vram-size",
            Switch::NumGws => "num-gws",
            Switch::CachesCount => "caches-count",
            Switch::FwVersion => "fw-ver",
            Switch::SdmaFwVersion => "sdma-fw-ver",
            Switch::Numa => "numa",
        };
        Some(PossibleValue::new(name).alias(self.0.env()))
    }
}

impl Args {
    pub(super) fn run(&self) -> Result<Answer, Error> {
        let mode = if self.all { Mode::All } else { Mode::Subset };
        let (checks, mut notes) = Checks::from_env_lookup(std::env::var_os::<&str>);
        let off = self.disable_check.iter();
        let checks = off.fold(checks, |checks, check| checks.with(check.0, false));
        let destination = load::machine(&self.to)?;
        let usable = self.usable(&destination)?;
        let sources = load::sources(&self.from)?;
        let matchers: Vec<Matcher> = sources
            .iter()
            .map(|source| self.matcher(source, checks))
            .collect::<Result<_, Error>>()?;
        let question = Question {
            destination: &destination,
            usable: &usable,
            mode,
        };
        let verdict = judge(&sources, &matchers, &question);
        let asked_for_xnack = sources
            .iter()
            .any(|source| source.system.xnack == Some(true));
        if asked_for_xnack && destination.xnack.is_none() {
            notes.push(
                "The checkpoint runs with XNACK on; whether the driver there allows it is not recorded"
                    .to_owned(),
            );
        }
        let report = Report::new(&sources, &matchers, &question, &verdict);
        let text = match self.output {
            Format::Table => report.table(),
            Format::Json => to_json(&report)?,
            Format::Yaml => to_yaml(&report)?,
        };
        let exit = match verdict.outcome() {
            Outcome::Fits => Exit::Yes,
            Outcome::DoesNotFit => Exit::No,
            Outcome::CannotTell => Exit::CannotTell,
        };
        Ok(Answer { text, notes, exit })
    }

    fn matcher(&self, source: &Source, checks: Checks) -> Result<Matcher, Error> {
        Matcher::new(&source.system, checks).map_err(|error| {
            let place = match &source.process {
                Some(process) => self.from.join(&process.image),
                None => self.from.clone(),
            };
            Error::Source {
                place: place.display().to_string(),
                source: error,
            }
        })
    }

    /// The ids of the usable GPUs, each once.
    fn usable(&self, destination: &System) -> Result<Vec<ActualGpuId>, Error> {
        let Some(names) = &self.usable else {
            return Ok(destination.gpus().map(|gpu| gpu.id).collect());
        };
        let mut usable = Vec::with_capacity(names.len());
        for name in names {
            let named = |gpu: &&GpuNode| match name {
                Name::Id(id) => gpu.id == *id,
                Name::Minor(minor) => gpu.render_minor.get() == *minor,
            };
            let gpu = destination.gpus().find(named);
            let gpu = gpu.ok_or_else(|| unknown(name, &self.to, destination))?;
            usable.push(gpu.id);
        }
        usable.sort_unstable();
        usable.dedup();
        Ok(usable)
    }
}

fn unknown(name: &Name, place: &Path, destination: &System) -> Error {
    let mut known: Vec<String> = destination
        .gpus()
        .take(8)
        .map(|gpu| format!("{} ({})", gpu.id, gpu.render_minor))
        .collect();
    match destination.gpus().count() {
        0 => known.push("none".to_owned()),
        count if count > known.len() => known.push(format!("{} more", count - known.len())),
        _ => {}
    }
    Error::NoGpu {
        name: name.to_string(),
        place: place.display().to_string(),
        known: known.join(", "),
    }
}
