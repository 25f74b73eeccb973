//! Being told to stop.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::error::Error;

/// Signals that ask this process to end, and a limit of time. From its making on the signals do not end it by
/// themselves: whoever waits does, after tidying up.
#[derive(Debug)]
pub(crate) struct Interrupt {
    signals: [Signal; 3],
    limit: Option<(Instant, Duration)>,
}

impl Interrupt {
    pub(crate) fn new(limit: Option<Duration>) -> Result<Self, Error> {
        let open = |kind| signal(kind).map_err(|source| Error::Runtime { source });
        Ok(Self {
            signals: [
                open(SignalKind::interrupt())?,
                open(SignalKind::terminate())?,
                open(SignalKind::hangup())?,
            ],
            limit: limit.map(|limit| (Instant::now() + limit, limit)),
        })
    }

    /// Returns when it is to stop, and says why.
    pub(crate) async fn wait(&mut self) -> String {
        let [interrupt, terminate, hangup] = &mut self.signals;
        let limit = self.limit;
        let late = async {
            match limit {
                Some((at, _)) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => "interrupted".to_owned(),
            _ = terminate.recv() => "terminated".to_owned(),
            _ = hangup.recv() => "the terminal is gone".to_owned(),
            () = late => {
                let seconds = limit.map_or(0, |(_, limit)| limit.as_secs());
                format!("not done after {seconds} s")
            }
        }
    }

    /// The answer of some work, unless it is to stop first.
    pub(crate) async fn or<T>(
        &mut self,
        what: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            why = self.wait() => Err(Error::Stopped { what, why }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn time_runs_out() {
        let mut stop = Interrupt::new(Some(Duration::ZERO)).expect("signals");
        let never = stop.or("Waiting", std::future::pending::<()>()).await;
        let error = never.expect_err("too late").to_string();
        assert_eq!(error, "Waiting was stopped: not done after 0 s");
        let mut stop = Interrupt::new(None).expect("signals");
        stop.or("Work", async {}).await.expect("done at once");
    }
}
