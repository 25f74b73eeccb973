//! `start`.

use std::ffi::OsString;
use std::process::ExitCode;

use serde::Deserialize;

use super::Context;
use super::error::WrapperError;

/// A restored container runs already, is held, or has ended by itself meanwhile: it was started. Once; what comes later is
/// the runtime's to answer.
pub(super) fn run(context: &Context) -> Result<ExitCode, WrapperError> {
    let Some(id) = context.id() else {
        return context.plain();
    };
    let place = context.place(&id);
    let record = match place.record() {
        Ok(Some(record)) if !record.started => record,
        // What cannot be read says nothing; the runtime refuses to start what runs.
        _ => return context.plain(),
    };
    if !was_restored(context)? {
        return context.plain();
    }
    place.write_record(&record.start())?;
    Ok(ExitCode::SUCCESS)
}

/// One that the runtime has created since waits for its start.
fn was_restored(context: &Context) -> Result<bool, WrapperError> {
    #[derive(Deserialize)]
    struct State {
        status: String,
    }
    let mut words = context.globals();
    words.push("state".into());
    words.extend(context.arguments.id().map(OsString::from));
    let (status, output) = context.runtime.output(&words)?;
    let state: Option<State> = serde_json::from_slice(&output).ok();
    let state = state.filter(|_| status.success());
    Ok(
        state
            .is_some_and(|state| matches!(state.status.as_str(), "running" | "paused" | "stopped")),
    )
}
