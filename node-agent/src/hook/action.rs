//! `rocferry-action`: an action script of CRIU that notes the dumps that engines make by their own commands.
//!
//! CRIU runs it at each stage of a dump or restore, with the stage in the environment (`criu/action-scripts.c`), and a script
//! that fails makes a dump fail. This one ends with 0 whatever happens, and writes a file only at `post-dump`: the daemon counts
//! it, and looks for the archive that the engine is about to leave. Dumps of the agent's own are not noted.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::say;
use crate::error::causes;
use crate::journal::now_ms;
use crate::ticket::DEFAULT_FOLDER;

/// Name by which the program is this one.
pub(super) const NAME: &str = "rocferry-action";

/// The stage.
const STAGE: &str = "CRTOOLS_SCRIPT_ACTION";
/// The stage at which the images are complete.
const POST_DUMP: &str = "post-dump";
/// Folder with the images.
const IMAGES: &str = "CRTOOLS_IMAGE_DIR";
/// Pid of the first process.
const INIT: &str = "CRTOOLS_INIT_PID";
/// The agent's folder, if it is another one.
const STATE: &str = "ROCFERRY_STATE";

/// Below the agent's folder.
const FOLDER: &str = "dumps";
/// Most notes that wait for a daemon: where none runs they must not fill the disk.
const MOST: usize = 1000;
/// Longest note.
const MAX_NOTE: u64 = 64 << 10;

/// A dump of an engine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForeignDump {
    /// When it was complete, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Folder with the images then; engines remove it soon.
    pub(crate) images: Option<PathBuf>,
    /// First process of the container.
    pub(crate) init: Option<u32>,
}

/// The program. Nothing that goes wrong here is worth a dump.
pub(super) fn main() {
    let get = |name: &str| std::env::var_os(name);
    let state = get(STATE).map_or_else(|| DEFAULT_FOLDER.into(), PathBuf::from);
    if let Err(error) = note(&state, get) {
        say::error(&causes(&error));
    }
}

fn note(state: &Path, get: impl Fn(&str) -> Option<OsString>) -> std::io::Result<()> {
    if get(STAGE).is_none_or(|stage| stage != POST_DUMP) {
        return Ok(());
    }
    let images = get(IMAGES).map(PathBuf::from);
    // The runtime names it by a descriptor.
    let images = images.map(|path| fs::canonicalize(&path).unwrap_or(path));
    if images
        .as_ref()
        .is_some_and(|path| path.starts_with(state.join("spool")))
    {
        return Ok(());
    }
    let folder = state.join(FOLDER);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    if fs::read_dir(&folder)?.count() >= MOST {
        return Ok(());
    }
    let note = ForeignDump {
        at_ms: now_ms(),
        images,
        init: get(INIT).and_then(|pid| pid.to_str()?.parse().ok()),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".dump-")
        .tempfile_in(&folder)?;
    file.write_all(&serde_json::to_vec(&note)?)?;
    let name = format!("{}-{}.json", note.at_ms, std::process::id());
    file.persist(folder.join(name))?;
    Ok(())
}

/// Takes the notes that are there.
pub(crate) fn foreign_dumps(state: &Path) -> Vec<ForeignDump> {
    let Ok(entries) = fs::read_dir(state.join(FOLDER)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let text = crate::ticket::read_bounded(&path, MAX_NOTE).ok().flatten();
        let note = text.and_then(|text| serde_json::from_slice(&text).ok());
        // Once removed it cannot be counted again; one that stays is not counted at all.
        if fs::remove_file(&path).is_ok() {
            found.extend(note);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(
        stage: &'a str,
        images: &'a Path,
    ) -> impl Fn(&str) -> Option<OsString> + use<'a> {
        move |name| match name {
            STAGE => Some(stage.into()),
            IMAGES => Some(images.into()),
            INIT => Some("17".into()),
            _ => None,
        }
    }

    #[test]
    fn a_dump_of_an_engine_is_noted_and_counted_once() {
        let state = tempfile::tempdir().expect("a folder");
        let images = Path::new("/nowhere/images");
        for stage in ["pre-dump", "network-lock", "post-restore", "pre-resume"] {
            note(state.path(), environment(stage, images)).expect("nothing to do");
        }
        assert!(!state.path().join(FOLDER).exists());
        note(state.path(), environment(POST_DUMP, images)).expect("noted");
        let found = foreign_dumps(state.path());
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].images.as_deref(), found[0].init),
            (Some(images), Some(17))
        );
        assert_eq!(foreign_dumps(state.path()), []);
    }

    #[test]
    fn a_dump_of_our_own_is_none_of_an_engine() {
        let state = tempfile::tempdir().expect("a folder");
        let images = state.path().join("spool/checkpoint-1/tree/checkpoint");
        note(state.path(), environment(POST_DUMP, &images)).expect("nothing to do");
        assert_eq!(foreign_dumps(state.path()), []);
    }

    #[test]
    fn where_no_daemon_runs_they_do_not_pile_up() {
        let state = tempfile::tempdir().expect("a folder");
        let folder = state.path().join(FOLDER);
        fs::create_dir(&folder).expect("made");
        for index in 0..MOST {
            fs::write(folder.join(format!("{index}.json")), "damaged").expect("written");
        }
        note(state.path(), environment(POST_DUMP, Path::new("/x"))).expect("left out");
        assert_eq!(fs::read_dir(&folder).expect("there").count(), MOST);
        assert_eq!(foreign_dumps(state.path()), []);
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 0);
    }
}
