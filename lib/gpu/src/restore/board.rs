//! What tasks tell CRIU about their GPU state.

use rocferry_image::TaskPid;

/// How far the GPU state of one task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TaskStage {
    /// Begun; nothing can be said of the process's queues.
    Begun = 0,
    /// The kernel has its records back (RESTORE succeeded): RESUME is allowed, once.
    Records = 1,
    /// All contents are in GPU memory and checked.
    Contents = 2,
    /// RESUME was sent.
    Resumed = 3,
}

impl TaskStage {
    /// The stage behind a number in shared memory; an unknown one counts as just begun.
    pub fn from_raw(raw: u32) -> Self {
        match raw {
            1 => Self::Records,
            2 => Self::Contents,
            3 => Self::Resumed,
            _ => Self::Begun,
        }
    }
}

/// A task's place on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSlot(pub usize);

/// Memory that CRIU and all tasks of a restore share, made before the first fork.
///
/// The kernel must not be sent RESUME for a process that was not restored, or twice: on Linux 6.12 that
/// dereferences a null pointer or raises a counter for good. So a task writes here what it has reached.
pub trait TaskBoard {
    /// Takes a free slot for the task with this innermost pid; `None` when all are taken.
    fn claim(&self, pid: TaskPid) -> Option<TaskSlot>;
    /// Notes a stage.
    fn set(&self, slot: TaskSlot, stage: TaskStage);
    /// All tasks: slot, innermost pid, stage.
    fn tasks(&self) -> Vec<(TaskSlot, TaskPid, TaskStage)>;
    /// How many tasks fit.
    fn capacity(&self) -> usize;
}
