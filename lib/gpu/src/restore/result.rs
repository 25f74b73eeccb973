//! The result file in CRIU's work directory.
//!
//! CRIU ignores what `RESUME_DEVICES_LATE` returns, so whoever started the restore reads here, task by task,
//! whether the GPU state is whole.

use std::fs;
use std::path::Path;

use rocferry_image::{RestoreResult, Resume, TaskPid, TaskResult};

use super::board::TaskStage;
use crate::error::{RestoreError, chain};

/// Answers so far.
#[derive(Debug, Default)]
pub(super) struct Results(RestoreResult);

impl Results {
    /// Notes a task: how far it had come, and its answer to RESUME, once that was sent.
    pub(super) fn add(
        &mut self,
        pid: TaskPid,
        stage: TaskStage,
        resume: Option<Result<&(), &RestoreError>>,
    ) {
        self.0.tasks.retain(|known| known.pid != pid.0);
        self.0.tasks.push(TaskResult {
            pid: pid.0,
            restored: stage != TaskStage::Begun,
            contents: matches!(stage, TaskStage::Contents | TaskStage::Resumed),
            resume: resume.map(|answer| match answer {
                Ok(&()) => Resume::Ok,
                Err(error) => Resume::Failed(chain(error)),
            }),
        });
    }

    /// Is this task's answer noted already?
    pub(super) fn knows(&self, pid: TaskPid) -> bool {
        self.0.tasks.iter().any(|known| known.pid == pid.0)
    }

    /// Writes the file, replacing an earlier one as a whole.
    pub(super) fn write(&self, work_dir: Option<&Path>) -> Result<(), RestoreError> {
        Ok(self.0.write(open(work_dir)?)?)
    }

    /// Makes sure that there is no file, neither of an earlier restore nor of fewer tasks.
    pub(super) fn remove(work_dir: Option<&Path>) -> Result<(), RestoreError> {
        match open(work_dir) {
            Ok(dir) => Ok(RestoreResult::remove(dir)?),
            // Nobody else finds a file in a directory that is gone.
            Err(_) => Ok(()),
        }
    }
}

fn open(work_dir: Option<&Path>) -> Result<fs::File, RestoreError> {
    let dir = work_dir.map_or_else(|| Err(std::io::ErrorKind::NotFound.into()), fs::File::open);
    dir.map_err(|source| RestoreError::System {
        what: "CRIU's work directory".to_owned(),
        source,
    })
}

/// Pid of a process in its innermost pid namespace.
pub(super) fn innermost_pid(pid: i32) -> Result<TaskPid, RestoreError> {
    let path = format!("/proc/{pid}/status");
    let status =
        fs::read_to_string(&path).map_err(|source| RestoreError::System { what: path, source })?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let last = line.and_then(|pids| pids.split_ascii_whitespace().last());
    let own = last.and_then(|text| text.parse().ok());
    Ok(TaskPid(own.unwrap_or_else(|| pid.cast_unsigned())))
}
