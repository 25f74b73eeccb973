//! `topology show`: what a machine has.

use std::path::PathBuf;

use rocferry_topology::{CompactTopology, System};

use super::{drawing, load};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::format::{Format, to_json, to_yaml};

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 done, 2 the topology cannot be read.")]
pub(crate) struct Args {
    /// Another machine: a copy of its /sys/class/kfd/kfd/topology, a folder with such a tree at
    /// sys/class/kfd/kfd/topology, or a file with its published form
    #[arg(long, value_name = "DIR|FILE")]
    root: Option<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl Args {
    pub(super) fn run(&self) -> Result<Answer, Error> {
        let system = match &self.root {
            Some(root) => load::machine(root)?,
            None => load::live()?,
        };
        Ok(Answer {
            text: render(&system, self.output)?,
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

fn render(system: &System, format: Format) -> Result<String, Error> {
    match format {
        Format::Table => Ok(drawing::draw(system)),
        Format::Json => to_json(&CompactTopology::from(system)),
        Format::Yaml => to_yaml(&CompactTopology::from(system)),
    }
}
