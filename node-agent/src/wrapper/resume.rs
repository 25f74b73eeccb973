//! `resume`.

use std::process::ExitCode;

use super::Context;
use super::error::WrapperError;
use crate::ticket::State;

/// A held container is not resumed by anybody's `resume`: its original may still be there.
pub(super) fn run(context: &Context) -> Result<ExitCode, WrapperError> {
    let Some(id) = context.id() else {
        return context.plain();
    };
    let Some(key) = context.place(&id).record()?.and_then(|record| record.key()) else {
        return context.plain();
    };
    match context.tickets().ticket(&key)?.map(|ticket| ticket.state) {
        Some(State::Held { container, .. } | State::Restoring { container }) if container == id => {
            Err(WrapperError::Held)
        }
        _ => context.plain(),
    }
}
