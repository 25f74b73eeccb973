//! The flags of runc and crun, as far as somebody has to know them who turns a `create` into a `restore`.
//!
//! From the manuals of runc 1.0 to 1.5 and crun 1.8 to 1.28, and from the command lines that containerd's shim and conmon
//! make. What is in no table is not understood: harmless where nothing is to be restored, and refused where something is.

use std::path::Path;

/// Which family of command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// runc, and runtimes that keep to its command line.
    Runc,
    /// crun.
    Crun,
}

impl Family {
    /// That of a program, by its name.
    pub(crate) fn of(program: &Path) -> Self {
        let name = program.file_name().unwrap_or_default();
        match name.as_encoded_bytes().starts_with(b"crun") {
            true => Self::Crun,
            false => Self::Runc,
        }
    }
}

/// What becomes of a flag of `create` at a `restore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// This runtime has no such flag.
    NotThere,
    /// `restore` has it too, and means the same.
    Carried,
    /// It is left out: it says how a process is started, and none is.
    Dropped,
    /// Nothing in `restore` does the same, and somebody relies on it.
    Impossible,
}

/// A flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// Its long name, without dashes.
    pub(crate) name: &'static str,
    /// Its short name.
    pub(crate) short: Option<u8>,
    /// A word or `=VALUE` follows.
    pub(crate) has_value: bool,
    /// For runc.
    runc: Fate,
    /// For crun.
    crun: Fate,
}

impl Flag {
    /// What becomes of it.
    pub(crate) fn fate(&self, family: Family) -> Fate {
        match family {
            Family::Runc => self.runc,
            Family::Crun => self.crun,
        }
    }
}

const fn switch(name: &'static str, runc: Fate, crun: Fate) -> Flag {
    Flag {
        name,
        short: None,
        has_value: false,
        runc,
        crun,
    }
}

const fn value(name: &'static str, runc: Fate, crun: Fate) -> Flag {
    Flag {
        name,
        short: None,
        has_value: true,
        runc,
        crun,
    }
}

const fn short(letter: u8, flag: Flag) -> Flag {
    Flag {
        short: Some(letter),
        ..flag
    }
}

use Fate::{Carried, Dropped, Impossible, NotThere};

/// Before the command. They all go unchanged before any other command as well.
pub(crate) const GLOBAL: &[Flag] = &[
    switch("debug", Carried, Carried),
    value("log", Carried, Carried),
    value("log-format", Carried, Carried),
    value("log-level", NotThere, Carried),
    value("root", Carried, Carried),
    value("criu", Carried, NotThere),
    switch("systemd-cgroup", Carried, Carried),
    value("cgroup-manager", NotThere, Carried),
    value("rootless", Carried, Carried),
    short(b'h', switch("help", Carried, Carried)),
    short(b'v', switch("version", Carried, Carried)),
];

/// Of `create`.
pub(crate) const CREATE: &[Flag] = &[
    short(b'b', value("bundle", Carried, Carried)),
    short(b'f', value("config", Impossible, Impossible)),
    value("console-socket", Carried, Carried),
    value("pid-file", Carried, Carried),
    value("pidfd-socket", Impossible, NotThere),
    // CRIU makes the root by itself; runc takes the flag and does nothing else with it.
    switch("no-pivot", Carried, Dropped),
    switch("no-new-keyring", Dropped, Dropped),
    switch("no-subreaper", Carried, Dropped),
    // The descriptors are in the images.
    value("preserve-fds", Dropped, Dropped),
];

/// Of `run`, `start`, `delete`, `resume`: nothing with a value stands before the container's id there but for these.
pub(crate) const OTHERS: &[Flag] = &[
    short(b'b', value("bundle", NotThere, NotThere)),
    short(b'f', switch("force", NotThere, NotThere)),
    short(b'r', switch("regex", NotThere, NotThere)),
];

/// Of `run` and `restore`, which start a container without a `create`.
pub(crate) const STARTERS: &[Flag] = &[
    short(b'b', value("bundle", NotThere, NotThere)),
    value("config", NotThere, NotThere),
    value("console-socket", NotThere, NotThere),
    value("pid-file", NotThere, NotThere),
    value("pidfd-socket", NotThere, NotThere),
    value("preserve-fds", NotThere, NotThere),
    value("image-path", NotThere, NotThere),
    value("work-path", NotThere, NotThere),
    value("parent-path", NotThere, NotThere),
    value("manage-cgroups-mode", NotThere, NotThere),
    value("empty-ns", NotThere, NotThere),
    value("lsm-profile", NotThere, NotThere),
    value("lsm-mount-context", NotThere, NotThere),
    short(b'd', switch("detach", NotThere, NotThere)),
    switch("keep", NotThere, NotThere),
    switch("no-pivot", NotThere, NotThere),
    switch("no-new-keyring", NotThere, NotThere),
    switch("no-subreaper", NotThere, NotThere),
    switch("tcp-established", NotThere, NotThere),
    switch("tcp-close", NotThere, NotThere),
    switch("ext-unix-sk", NotThere, NotThere),
    switch("shell-job", NotThere, NotThere),
    switch("file-locks", NotThere, NotThere),
    switch("auto-dedup", NotThere, NotThere),
    switch("lazy-pages", NotThere, NotThere),
];
