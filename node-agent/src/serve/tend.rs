//! Putting right what agents have left that are gone.

use std::time::Duration;

use super::args::Node;
use crate::error::{Error, causes};
use crate::hook::foreign_dumps;
use crate::interrupt::Interrupt;
use crate::journal::{Phase, recover};
use crate::runtime::Criu;

/// Longest time until what could not be put right is tried again.
const LONGEST: Duration = Duration::from_secs(60);

/// Looks every `interval`, until it is told to stop; what is begun then is done to its end. Why it stopped.
pub(super) async fn tend(
    node: &Node,
    criu: &Criu,
    interval: Duration,
    stop: &mut Interrupt,
) -> String {
    let (mut wait, mut first) = (interval, true);
    loop {
        node.health.turn();
        engines(node);
        let problem = match turn(node, criu, first).await {
            Ok(problem) => problem,
            Err(error) => Some(causes(&error)),
        };
        if let Some(problem) = &problem {
            tracing::error!(
                problem,
                again_s = wait.as_secs(),
                "Not everything is put right"
            );
        }
        wait = match problem {
            None => interval,
            Some(_) => (wait * 2).min(LONGEST.max(interval)),
        };
        first &= problem.is_some();
        node.health.is(problem);
        tokio::select! {
            why = stop.wait() => return why,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Counts what engines have dumped by themselves.
fn engines(node: &Node) {
    let dumps = foreign_dumps(&node.state);
    if dumps.is_empty() {
        return;
    }
    for dump in &dumps {
        tracing::info!(?dump.images, dump.init, "An engine has made a dump");
    }
    node.counters
        .count(|counts| counts.foreign_dumps += dumps.len() as u64);
}

/// One look. What is still wrong, if anything.
async fn turn(node: &Node, criu: &Criu, first: bool) -> Result<Option<String>, Error> {
    let list = node.journal.list()?;
    // What is held was frozen again by the first turn, and stays so.
    let left = list
        .iter()
        .any(|(record, free)| *free && record.phase != Phase::Held);
    if !first && !left {
        return Ok(None);
    }
    let mut problem = None;
    for one in recover(&node.journal, criu).await? {
        match &one.error {
            None if one.done == "held" && !first => {}
            None => {
                node.health.recovered(one.done);
                tracing::info!(
                    container = one.container,
                    record = one.record,
                    done = one.done,
                    "Put right"
                );
            }
            Some(error) => {
                node.health.failed();
                problem = Some(format!(
                    "{} ({}) is not {}: {error}",
                    one.container, one.record, one.done
                ));
            }
        }
    }
    Ok(problem)
}
