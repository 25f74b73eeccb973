//! The result file in CRIU's work directory.
//!
//! CRIU ignores what `RESUME_DEVICES_LATE` returns, so whoever started the restore reads here, task by task,
//! whether the GPU state is whole.

use std::fs;
use std::path::Path;

use rocferry_image::{RestoreResult, TaskResult};

use super::board::TaskStage;
use crate::error::RestoreError;

/// Answers so far.
#[derive(Debug, Default)]
pub(super) struct Results(RestoreResult);

impl Results {
    /// Notes a task's answer to RESUME.
    pub(super) fn add(&mut self, pid: i32, stage: TaskStage, error: Option<&RestoreError>) {
        self.0.tasks.push(TaskResult {
            pid,
            restored: stage != TaskStage::Begun,
            contents: matches!(stage, TaskStage::Contents | TaskStage::Resumed),
            resume: error.map_or_else(|| "ok".to_owned(), crate::error::chain),
        });
    }

    /// Writes the file, replacing an earlier one as a whole.
    pub(super) fn write(&self, work_dir: Option<&Path>) -> Result<(), RestoreError> {
        let dir = work_dir.ok_or_else(|| RestoreError::System {
            what: "CRIU's work directory".to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        Ok(self.0.write(dir)?)
    }
}

/// Pid of a process in its innermost pid namespace.
pub(super) fn innermost_pid(pid: i32) -> Result<i32, RestoreError> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path)
        .map_err(|source| RestoreError::System { what: path, source })?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let last = line.and_then(|pids| pids.split_ascii_whitespace().last());
    Ok(last.and_then(|text| text.parse().ok()).unwrap_or(pid))
}
