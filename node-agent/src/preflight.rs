//! What speaks against a checkpoint or a restore, found before anything is touched: each reason by name, with its
//! numbers.

mod connections;
mod cpu;
mod criu;
mod immovable;
mod space;

use serde::Serialize;

pub(crate) use cpu::features as cpu_features;
pub(crate) use criu::trial;
pub(crate) use immovable::uses_gpu;

use crate::runtime::{Container, Criu, RuntimeKind, Tcp};

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

    pub(crate) fn note(about: &'static str, text: impl Into<String>) -> Self {
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
    found.extend(connections::check(
        &processes,
        tcp,
        container.runtime == RuntimeKind::Bare,
    ));
    found.extend(space::of_dump(container, &processes, spool));
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

/// What an archive of so many bytes would meet before it is unpacked.
pub(crate) fn archive(bytes: u64, spool: &std::path::Path) -> Option<Finding> {
    space::of_archive(bytes, spool)
}

/// What the restore of an archive would meet once it is unpacked.
pub(crate) fn unpacked(
    source: &rocferry_image::manifest::Source,
    gpu: bool,
    criu: &Criu,
    spool: &std::path::Path,
) -> Vec<Finding> {
    let mut found = criu::check(criu, gpu, spool);
    found.extend(cpu::check(&source.cpu_features));
    found
}
