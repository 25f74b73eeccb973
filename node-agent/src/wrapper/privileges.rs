//! What the images would give a container beyond what its specification grants.
//!
//! Images are code and rights that CRIU restores as root: whoever can write them could ask for capabilities, users and
//! mounts that the new container was never to have. So before CRIU starts, every thread and every mount of the images is
//! compared with the new `config.json`. What the original could have come to legally within these rights (another user with
//! `CAP_SETUID`, file systems mounted with `CAP_SYS_ADMIN`) is no more than it grants.
//!
//! Profiles of security modules are not compared: those of the specification are given to CRIU in the place of the images'.
//! Which system calls a seccomp filter lets through is not looked at, only that there is one.

mod capabilities;
mod filters;
mod granted;
mod mounts;
mod threads;

use std::fs::File;
use std::path::Path;

use rocferry_image::{FdDir, ImageError, criu};

use filters::Filters;

use super::error::WrapperError;
use crate::spec::Spec;
pub(crate) use granted::{Granted, Profile};

/// Most differences that are named.
const MAX_NAMED: usize = 16;

/// What the images ask for beyond what is granted, each in words; none if all is granted.
pub(crate) fn excess(images: &Path, spec: &Spec) -> Result<Vec<String>, WrapperError> {
    let folder = File::open(images).map_err(WrapperError::file("open", images))?;
    let unreadable = |source: ImageError| WrapperError::Images {
        folder: images.to_owned(),
        source: Box::new(source),
    };
    let dir = FdDir(folder);
    let granted = Granted::by(spec);
    let mut found = Vec::new();
    let mut filters = Filters::new(&dir);
    for process in criu::processes(&dir).map_err(unreadable)? {
        let others = process.threads.iter().filter(|tid| **tid != process.pid);
        for tid in std::iter::once(&process.pid).chain(others) {
            let thread = criu::thread(&dir, *tid).map_err(unreadable)?;
            let Some(thread) = thread else { continue };
            let is_filtered = if *tid == process.pid {
                filters.first(thread.seccomp)
            } else {
                filters.other(thread.seccomp)
            };
            let is_filtered = is_filtered.map_err(unreadable)?;
            for what in threads::excess(&granted, &thread, is_filtered) {
                // A pool of threads says it once.
                if !found.contains(&what) {
                    found.push(what);
                }
            }
        }
    }
    found.extend(mounts::excess(
        &granted,
        &criu::mounts(&dir).map_err(unreadable)?,
    ));
    if found.len() > MAX_NAMED {
        let more = found.len() - MAX_NAMED;
        found.truncate(MAX_NAMED);
        found.push(format!("and {more} more"));
    }
    Ok(found)
}
