//! What lives from hook to hook.
//!
//! Hooks run one at a time on one thread of a process. The mutex is never held across a hook's return, so a
//! fork between hooks cannot copy it locked; `RESTORE_EXT_FILE` and `UPDATE_VMA_MAP` then work on their own
//! task's copy of what `init` had put here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rocferry_gpu::{DumpSession, RestoreSession};

use crate::board::SharedBoard;
use crate::host::CriuHost;

/// What CRIU is doing (`enum cr_plugin_stage`).
#[derive(Debug, Default)]
pub(crate) enum Session {
    /// Before `init`, after `exit`.
    #[default]
    None,
    /// Dump or pre-dump.
    Dump(Box<DumpSession>),
    /// Restore.
    Restore(Box<RestoreSession<SharedBoard>>),
    /// Restore of an image without GPU state: every hook answers "not mine".
    Disabled,
}

/// The session and the CRIU that it belongs to.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) host: Option<CriuHost>,
    pub(crate) session: Session,
}

static STATE: Mutex<State> = Mutex::new(State {
    host: None,
    session: Session::None,
});

/// The state. A panic in an earlier hook has poisoned the mutex but left the session usable: what matters
/// then is that `exit` still finds the processes that it has to resume.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
