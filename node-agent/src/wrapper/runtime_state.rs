//! What the runtime says of the container.

use std::ffi::OsString;

use serde::Deserialize;

use super::Context;
use super::error::WrapperError;

/// Its status (`created`, `running`, `paused`, `stopped`); `None` if the runtime does not know it.
pub(super) fn runtime_state(context: &Context) -> Result<Option<String>, WrapperError> {
    #[derive(Deserialize)]
    struct State {
        status: String,
    }
    // Without the caller's log: that a container is not there is no error here.
    let mut words: Vec<OsString> = context.globals_without_log();
    words.push("state".into());
    words.extend(context.arguments.id().map(OsString::from));
    let (status, output) = context.runtime.output(&words)?;
    if !status.success() {
        return Ok(None);
    }
    let state: Option<State> = serde_json::from_slice(&output).ok();
    Ok(state.map(|state| state.status))
}
