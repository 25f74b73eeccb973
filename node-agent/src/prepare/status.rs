//! What is prepared for pods, and how far it is: part of `status`.

use serde::Serialize;

use super::folder::Restores;
use crate::decision::{Decision, Decisions};
use crate::error::Error;
use crate::image::table;
use crate::journal::Journal;
use crate::ticket::{Key, PodUid, State, TicketFolder};

/// A ticket.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    /// The pod; none for a container without one.
    pod_uid: Option<PodUid>,
    /// The container: its name in the pod, or its id.
    container: String,
    /// `ready`, `restoring`, `held`, `used`.
    state: &'static str,
    held: bool,
    checkpoint: String,
    attempts: u32,
    last_error: Option<String>,
    /// Of a pod: what was decided.
    decision: Decision,
    /// The pod's preparation has not come to its end.
    unfinished: bool,
}

/// All tickets of this node.
pub(crate) fn shown(journal: &Journal) -> Result<Vec<Shown>, Error> {
    let state = journal.state();
    let (tickets, restores) = (TicketFolder::new(state), Restores::below(state));
    let decisions = Decisions::below(state);
    let mut all = Vec::new();
    for key in tickets.ticket_keys()? {
        let Some(ticket) = tickets.ticket(&key)? else {
            continue;
        };
        let (pod_uid, container) = match &key {
            Key::Pod { uid, container } => (Some(uid.clone()), container.to_string()),
            Key::Container(id) => (None, id.to_string()),
        };
        let (decision, unfinished) = match &pod_uid {
            Some(uid) => (
                decisions.of(uid)?.decision,
                restores.read(uid)?.is_some_and(|known| !known.complete),
            ),
            None => (Decision::Undecided, false),
        };
        all.push(Shown {
            pod_uid,
            container,
            state: ticket.state.word(),
            held: ticket.held && !matches!(ticket.state, State::Used { .. }),
            checkpoint: ticket.checkpoint,
            attempts: ticket.attempts,
            last_error: ticket.last_error,
            decision,
            unfinished,
        });
    }
    Ok(all)
}

/// As a table; empty if there are none.
pub(crate) fn lines(shown: &[Shown]) -> String {
    if shown.is_empty() {
        return String::new();
    }
    let head = [
        "POD",
        "CONTAINER",
        "TICKET",
        "TRIES",
        "DECISION",
        "CHECKPOINT",
        "LAST ERROR",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in shown {
        let state = match one.unfinished {
            true => "unfinished",
            false => one.state,
        };
        let pod = one.pod_uid.as_ref().map(ToString::to_string);
        rows.push(vec![
            pod.unwrap_or_else(|| "-".to_owned()),
            one.container.clone(),
            state.to_owned(),
            one.attempts.to_string(),
            format!("{:?}", one.decision).to_lowercase(),
            one.checkpoint.clone(),
            one.last_error.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table(&rows)
}
