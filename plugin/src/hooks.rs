//! The C entry points. Each takes the state, runs under the guard and returns a code.

use std::env;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::panic;
use std::path::Path;

use rocferry_gpu::{
    Config, DumpError, DumpSession, Host, LogLevel, Outcome, RestoreError, RestoreSession,
    VmaAnswer,
};

use rocferry_image::FileId;

use crate::board::SharedBoard;
use crate::guard::{self, FAILED, NOT_MINE};
use crate::host::CriuHost;
use crate::state::{self, Session, State};
use crate::symbols::{self, Symbols};

/// `CR_PLUGIN_STAGE__DUMP`, `CR_PLUGIN_STAGE__PRE_DUMP`, `CR_PLUGIN_STAGE__RESTORE`.
const STAGE_DUMP: c_int = 0;
const STAGE_PRE_DUMP: c_int = 1;
const STAGE_RESTORE: c_int = 2;

/// `int init(int stage)`: once per CRIU command, in CRIU's main process.
pub(crate) extern "C" fn init(stage: c_int) -> c_int {
    let begun = panic::catch_unwind(|| {
        let symbols = match Symbols::resolve() {
            Ok(symbols) => symbols,
            Err(missing) => {
                eprintln!("amdgpu_plugin: this CRIU does not export {missing}");
                return FAILED;
            }
        };
        log_panics(symbols);
        let host = CriuHost::new(symbols);
        let (config, warnings) = Config::from_lookup(|name| env::var_os(name));
        for warning in warnings {
            host.log(LogLevel::Warn, format_args!("{warning}"));
        }
        let session = match stage {
            STAGE_DUMP | STAGE_PRE_DUMP => Session::Dump(Box::new(DumpSession::new(config))),
            // A folder with two names for the plugin has it begun twice, and the first time has used up
            // the name in the inventory.
            STAGE_RESTORE if matches!(state::lock().session, Session::Restore(_)) => {
                host.named_in_inventory();
                return 0;
            }
            STAGE_RESTORE if !host.named_in_inventory() => Session::Disabled,
            STAGE_RESTORE => {
                let board = match SharedBoard::new() {
                    Ok(board) => board,
                    Err(error) => {
                        host.log(
                            LogLevel::Error,
                            format_args!("Cannot share memory with the tasks: {error}"),
                        );
                        return FAILED;
                    }
                };
                Session::Restore(Box::new(RestoreSession::begin(&host, config, board)))
            }
            _ => Session::Disabled,
        };
        *state::lock() = State {
            host: Some(host),
            session,
        };
        0
    });
    begun.unwrap_or(FAILED)
}

/// `void exit(int stage, int ret)`: the only hook that every CRIU calls after a failed dump as well.
pub(crate) extern "C" fn exit(_stage: c_int, ret: c_int) {
    let _ = panic::catch_unwind(|| {
        let State { host, session } = std::mem::take(&mut *state::lock());
        let Some(host) = host else { return };
        match session {
            Session::Dump(session) => session.finish(&host),
            Session::Restore(session) => session.finish(&host, ret == 0),
            Session::None | Session::Disabled => {}
        }
    });
}

/// Hook 7: does a mapping of this device belong to the plugin?
///
/// # Safety
/// `stat` points to the stat of the mapped file.
pub(crate) unsafe extern "C" fn handle_device_vma(_fd: c_int, stat: *const libc::stat) -> c_int {
    // SAFETY: CRIU passes a pointer that is valid for the call, or none.
    let Some(stat) = (unsafe { stat.as_ref() }) else {
        return NOT_MINE;
    };
    with_dump("HANDLE_DEVICE_VMA", |session, host| {
        match session.accepts_mapping(host, stat.st_mode, stat.st_rdev) {
            Outcome::Done(()) => Outcome::Done(0),
            Outcome::NotMine => Outcome::NotMine,
            Outcome::Failed(error) => Outcome::Failed(error),
        }
    })
}

/// Hook 2: dump an open file that CRIU does not know.
pub(crate) extern "C" fn dump_ext_file(fd: c_int, id: c_int) -> c_int {
    if fd < 0 {
        return NOT_MINE;
    }
    with_dump("DUMP_EXT_FILE", |session, host| {
        // SAFETY: CRIU keeps the descriptor open for the whole hook.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        match session.dump_file(host, file, FileId(id)) {
            Outcome::Done(()) => Outcome::Done(0),
            Outcome::NotMine => Outcome::NotMine,
            Outcome::Failed(error) => Outcome::Failed(error),
        }
    })
}

/// Hook 3: open a dumped file again, in the task that owns it.
///
/// # Safety
/// `retry` is valid for writing when the host passes two arguments, and arbitrary when it passes one.
pub(crate) unsafe extern "C" fn restore_ext_file(id: c_int, retry: *mut bool) -> c_int {
    // Before anything else: a host that passes the argument reads it whatever the hook answers.
    if symbols::restore_hook_has_retry() && !retry.is_null() {
        // SAFETY: this host passes a second argument, which it does not initialise itself.
        unsafe { *retry = false };
    }
    with_restore("RESTORE_EXT_FILE", |session, host| {
        match session.restore_file(host, FileId(id)) {
            // CRIU takes the number over.
            Outcome::Done(file) => Outcome::Done(file.into_raw_fd()),
            Outcome::NotMine => Outcome::NotMine,
            Outcome::Failed(error) => Outcome::Failed(error),
        }
    })
}

/// Hook 8: the new offset of a device mapping, and a file to map it from.
///
/// # Safety
/// `path` is a C string; `pgoff` and `fd` are valid for writing.
pub(crate) unsafe extern "C" fn update_vma_map(
    path: *const c_char,
    addr: u64,
    old_pgoff: u64,
    pgoff: *mut u64,
    fd: *mut c_int,
) -> c_int {
    if path.is_null() || pgoff.is_null() || fd.is_null() {
        return NOT_MINE;
    }
    // SAFETY: CRIU's path is NUL-terminated and lives for the call.
    let path = unsafe { CStr::from_ptr(path) };
    with_restore("UPDATE_VMA_MAP", |session, host| {
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let VmaAnswer { offset, file } = match session.update_mapping(host, path, addr, old_pgoff) {
            Outcome::Done(answer) => answer,
            Outcome::NotMine => return Outcome::NotMine,
            Outcome::Failed(error) => return Outcome::Failed(error),
        };
        // SAFETY: checked above; CRIU reads it when the hook returns 1.
        unsafe { *pgoff = offset };
        if let Some(file) = file {
            // SAFETY: checked above; CRIU reads it whatever the hook returns.
            unsafe { *fd = file.into_number() };
        }
        Outcome::Done(1)
    })
}

/// Hook 9: every task stands; let its queues run. CRIU ignores the result.
pub(crate) extern "C" fn resume_devices_late(pid: c_int) -> c_int {
    with_restore("RESUME_DEVICES_LATE", |session, host| {
        match session.resume(host, pid) {
            // Another plugin may have devices of the same task to resume.
            Outcome::Done(()) | Outcome::NotMine => Outcome::NotMine,
            Outcome::Failed(error) => Outcome::Failed(error),
        }
    })
}

fn with_dump(
    hook: &str,
    body: impl FnOnce(&mut DumpSession, &CriuHost) -> Outcome<c_int, DumpError>,
) -> c_int {
    let mut state = state::lock();
    let State {
        host: Some(host),
        session: Session::Dump(session),
    } = &mut *state
    else {
        return NOT_MINE;
    };
    guard::run(hook, Some(host), || body(session, host))
}

fn with_restore(
    hook: &str,
    body: impl FnOnce(&mut RestoreSession<SharedBoard>, &CriuHost) -> Outcome<c_int, RestoreError>,
) -> c_int {
    let mut state = state::lock();
    let State {
        host: Some(host),
        session: Session::Restore(session),
    } = &mut *state
    else {
        return NOT_MINE;
    };
    guard::run(hook, Some(host), || body(session, host))
}

/// A panic's text goes into CRIU's log: standard error may be closed or the application's.
fn log_panics(symbols: Symbols) {
    panic::set_hook(Box::new(move |info| {
        // A worker's panic comes out as the error of its stage.
        if may_log() {
            CriuHost::new(symbols).log(LogLevel::Error, format_args!("Internal error: {info}"));
        }
    }));
}

/// Only the thread that runs the hooks may write to CRIU's log, whose buffer is one for the process: that is
/// the first thread of CRIU or of the task.
fn may_log() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

#[cfg(test)]
mod tests {
    use std::thread;

    #[test]
    fn helper_threads_may_not_log() {
        assert_eq!(thread::spawn(super::may_log).join().ok(), Some(false));
    }
}
