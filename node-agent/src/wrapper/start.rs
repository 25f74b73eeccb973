//! `start`.

use std::process::ExitCode;

use super::Context;
use super::error::WrapperError;
use super::runtime_state::runtime_state;

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
    // One that the runtime has created since waits for its start.
    match runtime_state(context)?.as_deref() {
        Some("running" | "paused" | "stopped") => {}
        _ => return context.plain(),
    }
    place.write_record(&record.start())?;
    Ok(ExitCode::SUCCESS)
}
