//! `delete`.

use std::process::ExitCode;

use super::Context;
use super::error::WrapperError;
use super::report::Level;
use crate::error::causes;

/// What is remembered of a container goes with it, and not before.
pub(super) fn run(context: &Context) -> Result<ExitCode, WrapperError> {
    let Some(place) = context.id().map(|id| context.place(&id)) else {
        return context.plain();
    };
    if !place.folder().exists() {
        return context.plain();
    }
    let status = context.runtime.run(&context.arguments.all, &[])?;
    if status.success()
        && let Err(error) = place.remove()
    {
        context.report.say(Level::Warning, &causes(&error));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
