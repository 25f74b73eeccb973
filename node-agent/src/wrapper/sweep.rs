//! What a restore has left whose wrapper or runtime was killed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::Context;
use super::error::WrapperError;
use super::flags::Family;
use super::hold::{self, Cgroup, Note as _, Proof};
use super::mounts::detach_below;
use super::place::Place;
use crate::ticket::ContainerId;

/// Takes it away: processes, mounts, our folder. For a container that the runtime does not know.
pub(super) fn sweep(
    context: &Context,
    id: &ContainerId,
    place: &Place,
) -> Result<(), WrapperError> {
    kill(place)?;
    unbind(context, id, place)?;
    place.remove()
}

/// Takes away what the runtime has bound for CRIU, which is there during a restore alone: runc in its own folder, crun in the
/// bundle.
pub(super) fn unbind(
    context: &Context,
    id: &ContainerId,
    place: &Place,
) -> Result<(), WrapperError> {
    if let Some(bundle) = place.bundle() {
        bound(&bundle)?;
    }
    let root = context.arguments.global("root").map_or_else(
        || PathBuf::from(default_root(context.runtime.family)),
        PathBuf::from,
    );
    runtime_folder(&root.join(OsStr::new(id.as_str())))
}

/// Kills what is left of a restore that was to be held: CRIU, and the container's cgroup.
pub(super) fn kill(place: &Place) -> Result<(), WrapperError> {
    let Some(proof) = Proof::read(place.folder())? else {
        return Ok(());
    };
    hold::kill(proof.criu);
    let cgroup = proof.cgroup.map(Cgroup::at);
    match cgroup.filter(|cgroup| cgroup.path().exists()) {
        Some(cgroup) => cgroup.kill().map_err(|error| WrapperError::Hold {
            reason: crate::error::causes(&error),
        }),
        None => Ok(()),
    }
}

/// Where runtimes keep their state unless told otherwise.
fn default_root(family: Family) -> &'static str {
    match family {
        Family::Runc => "/run/runc",
        Family::Crun => "/run/crun",
    }
}

/// runc binds the root file system into its own folder for CRIU, and refuses an id whose folder is there.
fn runtime_folder(folder: &Path) -> Result<(), WrapperError> {
    if bound(folder)? {
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// Takes away where the root file system is bound in this folder; neither runtime restores while it is there. Was it?
fn bound(folder: &Path) -> Result<bool, WrapperError> {
    let bound = folder.join("criu-root");
    if !bound.exists() {
        return Ok(false);
    }
    detach_below(&bound)?;
    // Empty, or not what we think it is; then the runtime has its say.
    fs::remove_dir(&bound).map_err(WrapperError::file("remove", &bound))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_broken_restore_leaves_is_removed() {
        let dir = tempfile::tempdir().expect("folder");
        let folder = dir.path().join("id");
        runtime_folder(&folder).expect("none");
        fs::create_dir(&folder).expect("folder");
        runtime_folder(&folder).expect("nothing of a restore");
        assert!(folder.exists());
        fs::create_dir(folder.join("criu-root")).expect("folder");
        runtime_folder(&folder).expect("left over");
        assert!(!folder.exists());
        fs::create_dir_all(folder.join("criu-root/bin")).expect("folder");
        runtime_folder(&folder).expect_err("somebody's files");
        assert!(folder.join("criu-root/bin").exists());
        fs::remove_dir(folder.join("criu-root/bin")).expect("gone");
        fs::write(folder.join("state.json"), "{}").expect("file");
        runtime_folder(&folder).expect("the rest stays");
        assert!(folder.join("state.json").exists());
    }

    #[test]
    fn a_bundle_stays_with_all_but_the_binding() {
        let dir = tempfile::tempdir().expect("folder");
        assert!(!bound(dir.path()).expect("none"));
        fs::create_dir(dir.path().join("criu-root")).expect("folder");
        assert!(bound(dir.path()).expect("left over"));
        assert!(dir.path().exists() && !dir.path().join("criu-root").exists());
    }
}
