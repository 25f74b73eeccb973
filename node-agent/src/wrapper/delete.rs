//! `delete`.

use std::process::ExitCode;

use super::Context;
use super::error::WrapperError;
use super::report::Level;
use super::runtime_state::runtime_state;
use super::sweep;
use crate::error::causes;

/// What is remembered of a container goes with it, and not before.
pub(super) fn run(context: &Context) -> Result<ExitCode, WrapperError> {
    let Some(id) = context.id() else {
        return context.plain();
    };
    let place = context.place(&id);
    if !place.folder().exists() {
        return context.plain();
    }
    // The runtime stumbles over what a killed restore has left.
    let swept = match runtime_state(context)? {
        None => sweep::sweep(context, &id, &place),
        Some(_) => match place.record() {
            // The restore has come to its end.
            Ok(Some(_)) => Ok(()),
            _ => sweep::kill(&place).and_then(|()| sweep::unbind(context, &id, &place)),
        },
    };
    // Not with the root file system still bound in the runtime's folder, which it would empty.
    swept?;
    let status = context.runtime.run(&context.arguments.all, &[])?;
    if status.success()
        && let Err(error) = place.remove()
    {
        context.report.say(Level::Warning, &causes(&error));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
