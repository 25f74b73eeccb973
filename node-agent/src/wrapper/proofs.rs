//! What must be there after a restore before it counts: success of the runtime alone proves neither that the GPUs work nor
//! that nothing runs.

use std::fs::File;
use std::path::{Path, PathBuf};

use rocferry_image::{RestoreResult, Resume};

use super::error::WrapperError;
use super::hold::{Cgroup, Note as _, Proof, Stage};
use crate::error::causes;

/// The plugin's result. CRIU's own plugin leaves none: then CRIU's word counts, unless the container is to be held.
pub(crate) fn gpu_state(work: &Path, held: bool) -> Result<(), WrapperError> {
    let wrong = |reason| Err(WrapperError::GpuState { reason });
    let folder = File::open(work).map_err(WrapperError::file("open", work))?;
    let result = match RestoreResult::read(folder) {
        Ok(Some(result)) => result,
        Ok(None) if held => return wrong("The plugin has left no result".to_owned()),
        Ok(None) => return Ok(()),
        Err(error) => return wrong(causes(&error)),
    };
    if result.is_success() {
        return Ok(());
    }
    let bad = result.tasks.iter().find_map(|task| {
        let what = match &task.resume {
            _ if !task.restored => "its objects were not restored".to_owned(),
            _ if !task.contents => "the contents of its memory are not complete".to_owned(),
            None => "its queues were not resumed".to_owned(),
            Some(Resume::Failed(reason)) => format!("its queues cannot be resumed: {reason}"),
            Some(Resume::Ok) => return None,
        };
        Some(format!("process {}: {what}", task.pid))
    });
    wrong(bad.unwrap_or_else(|| "no process is in the plugin's result".to_owned()))
}

/// The script's proof, and the kernel's word once more. The container's cgroup.
pub(crate) fn hold(folder: &Path) -> Result<PathBuf, WrapperError> {
    let wrong = |reason: String| WrapperError::Hold { reason };
    let proof = Proof::read(folder)?.filter(|proof| proof.stage == Stage::Frozen);
    let Some((path, init)) = proof.and_then(|proof| Some((proof.cgroup?, proof.init?))) else {
        return Err(wrong(script_error(folder)));
    };
    let cgroup = Cgroup::at(&path);
    if let Some(aside) = cgroup.aside() {
        aside.remove();
    }
    // A process that is taken out of a frozen cgroup runs.
    if let Some(reason) = super::hold::moved(folder, &cgroup, init) {
        return Err(wrong(format!(
            "The runtime has moved it, and it may have run: {reason}"
        )));
    }
    let frozen = cgroup
        .is_frozen()
        .and_then(|frozen| Ok(frozen && cgroup.is_to_freeze()?));
    match frozen {
        Ok(true) => Ok(path),
        Ok(false) => Err(wrong("It was thawed by somebody".to_owned())),
        Err(error) => Err(wrong(causes(&error))),
    }
}

/// Why the script failed.
pub(crate) fn script_error(folder: &Path) -> String {
    let text = crate::ticket::read_bounded(&folder.join("hold-error.txt"), 64 << 10);
    let text = text.ok().flatten().unwrap_or_default();
    match String::from_utf8_lossy(&text).trim() {
        "" => "CRIU did not run the script to its end".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rocferry_image::TaskResult;

    use super::*;
    use crate::wrapper::hold::{Named, Plan, named};

    #[test]
    fn only_a_whole_result_is_success() {
        let dir = tempfile::tempdir().expect("folder");
        gpu_state(dir.path(), false).expect("CRIU's own plugin");
        gpu_state(dir.path(), true).expect_err("no proof");
        let good = TaskResult {
            pid: 1,
            restored: true,
            contents: true,
            resume: Some(Resume::Ok),
        };
        let bad = [
            TaskResult {
                restored: false,
                ..good.clone()
            },
            TaskResult {
                contents: false,
                ..good.clone()
            },
            TaskResult {
                resume: None,
                ..good.clone()
            },
            TaskResult {
                resume: Some(Resume::Failed("EBUSY".to_owned())),
                ..good.clone()
            },
        ];
        let write = |tasks: Vec<TaskResult>| {
            let result = RestoreResult {
                tasks,
                ..RestoreResult::default()
            };
            result
                .write(File::open(dir.path()).expect("folder"))
                .expect("written");
        };
        for task in bad {
            write(vec![good.clone(), task]);
            for held in [false, true] {
                let error = gpu_state(dir.path(), held).expect_err("bad").to_string();
                assert!(error.contains("process 1: "), "{error}");
            }
        }
        write(vec![]);
        gpu_state(dir.path(), false).expect_err("nobody");
        write(vec![good]);
        gpu_state(dir.path(), true).expect("whole");
    }

    #[test]
    fn only_a_frozen_cgroup_is_held() {
        let dir = tempfile::tempdir().expect("folder");
        let cgroup = dir.path().join("cgroup");
        fs::create_dir(&cgroup).expect("cgroup");
        hold(dir.path()).expect_err("no proof");
        // This process, whose cgroup is below that one if the hierarchy begins there.
        let own = named(rustix::process::getpid()).expect("own");
        let plan = |hierarchy: &Path| {
            Plan {
                hierarchy: hierarchy.to_owned(),
                refuge: PathBuf::from("/"),
                wrapper: own,
                place: None,
            }
            .write(dir.path())
            .expect("written");
        };
        plan(&cgroup);
        let prove = |stage| {
            let cgroup = Some(cgroup.clone());
            let criu = Named { pid: 1, started: 1 };
            Proof {
                stage,
                cgroup,
                criu,
                init: Some(own),
                oom_group: None,
            }
            .write(dir.path())
            .expect("written");
        };
        let kernel = |freeze, events| {
            fs::write(cgroup.join("cgroup.freeze"), freeze).expect("file");
            fs::write(cgroup.join("cgroup.events"), events).expect("file");
        };
        prove(Stage::Frozen);
        hold(dir.path()).expect_err("no cgroup");
        kernel("1\n", "populated 1\nfrozen 1\n");
        assert_eq!(hold(dir.path()).expect("held"), cgroup);
        plan(dir.path());
        let error = hold(dir.path()).expect_err("somewhere else").to_string();
        assert!(error.contains("has moved it"), "{error}");
        plan(&cgroup);
        prove(Stage::Proven);
        hold(dir.path()).expect_err("not to its end");
        prove(Stage::Frozen);
        for (freeze, events) in [("1\n", "frozen 0\n"), ("0\n", "frozen 1\n"), ("", "")] {
            kernel(freeze, events);
            hold(dir.path()).expect_err("not frozen");
        }
        fs::write(dir.path().join("hold-error.txt"), "pre-resume: x\n").expect("file");
        assert_eq!(script_error(dir.path()), "pre-resume: x");
    }
}
