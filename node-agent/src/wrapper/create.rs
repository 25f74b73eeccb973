//! `create`, and the other commands that start a container.

use std::path::PathBuf;
use std::process::ExitCode;

use super::Context;
use super::bundle::Bundle;
use super::decide::{Decision, Known};
use super::error::WrapperError;
use super::identity::Identity;
use super::report::Level;
use super::restore;
use crate::error::causes;

pub(super) fn run(context: &Context) -> Result<ExitCode, WrapperError> {
    let arguments = &context.arguments;
    let Some(id) = arguments.id() else {
        return context.plain();
    };
    let bundle = PathBuf::from(arguments.option("bundle").unwrap_or_default());
    let bundle = match bundle.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => bundle,
    };
    // Without a specification there is nothing to start, as the runtime will say.
    let Ok(bundle) = Bundle::read(&bundle) else {
        return context.plain();
    };
    let identity = Identity::of(&bundle, id);
    let known = Known::look(&context.tickets(), &identity.keys, identity.marked);
    match (arguments.command(), known.decide()) {
        (_, Decision::Refuse(error)) => Err(error),
        (_, Decision::Plain(trouble)) => {
            if let Some(trouble) = trouble {
                let text = format!("Started without a look at its ticket: {}", causes(&trouble));
                context.report.say(Level::Warning, &text);
            }
            context.plain()
        }
        ("create", Decision::Restore { key, .. }) => {
            restore::run(context, &bundle, &key, identity.marked)
        }
        // The engine's own restore of this container, which nobody holds.
        ("restore", Decision::Restore { held: false, .. }) => context.plain(),
        (command, Decision::Restore { ticket, .. }) => Err(WrapperError::NotByThis {
            checkpoint: ticket.checkpoint,
            command: command.to_owned(),
        }),
    }
}
