//! What becomes of a container that somebody wants to make.

use super::error::WrapperError;
use crate::ticket::{AfterUse, Fence, Key, State, Ticket, TicketError, TicketFolder};

/// What is known about it.
#[derive(Debug)]
pub(crate) struct Known {
    /// It is marked for a restore.
    pub(crate) marked: bool,
    /// Its ticket, or why that cannot be told.
    pub(crate) ticket: Result<Option<(Key, Ticket)>, TicketError>,
    /// Its fence, or why that cannot be told.
    pub(crate) fence: Result<Option<Fence>, TicketError>,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Decision {
    /// What the plain runtime does. With what is wrong with the tickets all the same.
    Plain(Option<TicketError>),
    /// Restore it.
    Restore {
        /// Where its ticket lies.
        key: Key,
        /// The ticket.
        ticket: Box<Ticket>,
        /// Frozen.
        held: bool,
    },
    /// It must not be made.
    Refuse(WrapperError),
}

impl Known {
    /// Looks for ticket and fence under each of the keys. The first one there counts.
    pub(crate) fn look(folder: &TicketFolder, keys: &[Key], marked: bool) -> Self {
        let ticket = keys.iter().find_map(|key| match folder.ticket(key) {
            Ok(ticket) => ticket.map(|ticket| Ok((key.clone(), ticket))),
            Err(error) => Some(Err(error)),
        });
        let fence = keys.iter().find_map(|key| folder.fence(key).transpose());
        Self {
            marked,
            ticket: ticket.transpose(),
            fence: fence.transpose(),
        }
    }

    /// Decides. A container that is neither marked nor has a ticket or fence is none of our business, whatever is broken;
    /// one that is never starts cold by mistake.
    pub(crate) fn decide(self) -> Decision {
        if let Ok(Some(fence)) = self.fence {
            return Decision::Refuse(WrapperError::Fenced {
                request: fence.request,
            });
        }
        let (key, ticket) = match self.ticket {
            Ok(Some(found)) => found,
            Ok(None) if self.marked => {
                let reason = match self.fence {
                    Err(error) => crate::error::causes(&error),
                    Ok(_) => "the node's agent has left none, or its pod is not the one that was announced".to_owned(),
                };
                return Decision::Refuse(WrapperError::NoTicket { reason });
            }
            Err(error) if self.marked => {
                let reason = crate::error::causes(&error);
                return Decision::Refuse(WrapperError::NoTicket { reason });
            }
            Ok(None) => return Decision::Plain(self.fence.err()),
            Err(error) => return Decision::Plain(Some(error)),
        };
        // A ticket is as good as a mark.
        if let Err(error) = self.fence {
            return Decision::Refuse(error.into());
        }
        let (restores, held) = match (&ticket.state, ticket.on_container_restart) {
            (State::Ready | State::Restoring { .. } | State::Held { .. }, _) => (true, ticket.held),
            (State::Used { .. }, AfterUse::RestoreAgain) => (true, false),
            (State::Used { .. }, AfterUse::ColdStart) => (false, false),
            (State::Used { .. }, AfterUse::Refuse) => {
                return Decision::Refuse(WrapperError::Spent {
                    checkpoint: ticket.checkpoint,
                });
            }
        };
        match restores {
            true => Decision::Restore {
                key,
                ticket: Box::new(ticket),
                held,
            },
            false => Decision::Plain(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    fn broken() -> TicketError {
        TicketError::Busy {
            path: PathBuf::from("/x"),
        }
    }

    fn state() -> impl Strategy<Value = State> {
        let container = || "c".parse().expect("id");
        prop_oneof![
            Just(State::Ready),
            Just(State::Restoring {
                container: container()
            }),
            Just(State::Held {
                container: container(),
                cgroup: "/c".into()
            }),
            Just(State::Used {
                container: container()
            }),
        ]
    }

    prop_compose! {
        fn ticket()(state in state(), held: bool, after in prop_oneof![
            Just(AfterUse::ColdStart), Just(AfterUse::RestoreAgain), Just(AfterUse::Refuse)
        ]) -> Ticket {
            Ticket { state, held, on_container_restart: after, ..Ticket::new("c", "/i") }
        }
    }

    /// `None`: cannot be read.
    fn known() -> impl Strategy<Value = (bool, Option<Option<Ticket>>, Option<bool>)> {
        (
            any::<bool>(),
            proptest::option::of(proptest::option::of(ticket())),
            proptest::option::of(any::<bool>()),
        )
    }

    proptest! {
        #[test]
        fn nothing_cold_by_mistake_and_nobody_else_harmed((marked, ticket, fence) in known()) {
            let key: Key = Key::Container("c".parse().expect("id"));
            let known = Known {
                marked,
                ticket: match &ticket {
                    Some(ticket) => Ok(ticket.clone().map(|ticket| (key, ticket))),
                    None => Err(broken()),
                },
                fence: match fence {
                    Some(true) => Ok(Some(Fence { version: 1, request: "r".into(), since_ms: 0 })),
                    Some(false) => Ok(None),
                    None => Err(broken()),
                },
            };
            let has_ticket = matches!(&ticket, Some(Some(_)));
            let spent = ticket.clone().flatten().filter(|ticket| matches!(ticket.state, State::Used { .. }));
            match known.decide() {
                Decision::Plain(_) => {
                    prop_assert!(fence != Some(true));
                    let cold = spent.is_some_and(|ticket| ticket.on_container_restart == AfterUse::ColdStart);
                    prop_assert!(cold || !marked && !has_ticket);
                }
                Decision::Restore { ticket: chosen, held, .. } => {
                    prop_assert!(has_ticket && fence == Some(false));
                    let before_thaw = spent.is_none();
                    prop_assert_eq!(held, before_thaw && chosen.held);
                }
                Decision::Refuse(_) => prop_assert!(marked || has_ticket || fence == Some(true)),
            }
        }
    }
}
