//! What speaks against a checkpoint or a restore, found before anything is touched: each reason by name, with its
//! numbers.

mod addresses;
mod connections;
mod cpu;
mod criu;
mod immovable;
mod memory;
mod namespaces;
mod pod;
mod projected;
mod sockets;
mod space;

use serde::Serialize;

pub(crate) use connections::has_tcp;
pub(crate) use cpu::features as cpu_features;
pub(crate) use criu::trial;
pub(crate) use immovable::uses_gpu;
pub(crate) use namespaces::shares_network;
pub(crate) use pod::pod;

use crate::runtime::{Container, Criu, CriuVersion, RuntimeKind, Tcp};

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What it is about, for scripts.
    pub(crate) about: &'static str,
    /// For people.
    pub(crate) text: String,
    /// It cannot be done like this.
    pub(crate) refuses: bool,
}

impl Finding {
    /// For people, with what it is about.
    pub(crate) fn line(&self) -> String {
        match self.refuses {
            true => format!("Not possible ({}): {}", self.about, self.text),
            false => format!("{}: {}", self.about, self.text),
        }
    }

    pub(crate) fn refusal(about: &'static str, text: impl Into<String>) -> Self {
        Self {
            about,
            text: text.into(),
            refuses: true,
        }
    }

    fn note(about: &'static str, text: impl Into<String>) -> Self {
        Self {
            refuses: false,
            ..Self::refusal(about, text)
        }
    }
}

/// What a checkpoint would meet. `spool`: where the dump goes. `freezes`: the container is to be frozen as a whole.
pub(crate) fn checkpoint(
    container: &Container,
    criu: &Criu,
    tcp: Tcp,
    spool: &std::path::Path,
    freezes: bool,
) -> Vec<Finding> {
    let processes = container.processes();
    let gpu = immovable::uses_gpu(&processes);
    let mut found = criu::check(criu, gpu, spool);
    found.extend(immovable::check(container, &processes));
    found.extend(connections::check(&processes, tcp, closes(container, criu)));
    found.extend(space::of_dump(
        space::Needs::of(container, &processes),
        spool,
    ));
    found.extend(above(container));
    if freezes && container.cgroup.is_none() {
        found.push(Finding::refusal(
            "cgroup",
            format!(
                "{} has no cgroup (version 2) of its own that could be frozen: leave it running, or start it in one",
                container.name
            ),
        ));
    }
    found
}

/// Can whoever dumps be told to close connections in the copy? A runtime's CRIU only by a configuration file.
fn closes(container: &Container, criu: &Criu) -> bool {
    let told = || {
        criu.version()
            .is_ok_and(|version| version >= CriuVersion::CLOSES)
    };
    container.runtime == RuntimeKind::Bare || told()
}

/// CRIU's code does not run in a container below a cgroup that is frozen.
fn above(container: &Container) -> Option<Finding> {
    let above = container.cgroup.as_ref()?.frozen_above()?;
    Some(Finding::refusal(
        "frozen",
        format!(
            "{} is below {}, which is frozen: checkpoint the whole pod (--pod), or thaw it",
            container.name,
            above.path().display()
        ),
    ))
}

/// What a restore would meet before its files are there.
pub(crate) fn restore(
    manifest: &rocferry_image::manifest::Manifest,
    criu: &Criu,
    spool: &std::path::Path,
) -> Vec<Finding> {
    let files = manifest.files.iter();
    let gpu = files
        .map(|file| file.path.rsplit('/').next())
        .any(|name| name.is_some_and(|name| rocferry_image::names::parse_kfd(name).is_some()));
    let mut found = criu::check(criu, gpu, spool);
    found.extend(cpu::check(&manifest.source.cpu_features));
    found.extend(space::of_restore(manifest, spool));
    found
}
