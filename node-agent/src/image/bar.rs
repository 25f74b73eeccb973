//! Progress on a terminal; lines where there is none.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rocferry_store::{Progress, Snapshot};
use tokio::task::JoinHandle;

use super::names::size;

/// Where there is no terminal, a line as often as this.
const LINES: Duration = Duration::from_secs(10);
const REDRAW: Duration = Duration::from_millis(200);

/// Shows how far something is, until it is dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    showing: JoinHandle<()>,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// `verb` is what is done: `Storing`, `Reading`.
    pub(crate) fn show(verb: &'static str, progress: &Progress) -> Self {
        let progress = progress.clone();
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {percent:>3} %  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(verb);
            let shown = bar.clone();
            let showing = tokio::spawn(async move {
                loop {
                    let now = progress.snapshot();
                    shown.set_length(now.expected);
                    shown.set_position(now.done);
                    shown.set_message(describe(&now));
                    tokio::time::sleep(REDRAW).await;
                }
            });
            return Self {
                showing,
                bar: Some(bar),
            };
        }
        let showing = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LINES).await;
                let line = describe(&progress.snapshot());
                // If nobody listens, the work goes on all the same.
                let _ = writeln!(std::io::stderr().lock(), "{verb}: {line}");
            }
        });
        Self { showing, bar: None }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.showing.abort();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The numbers, a line.
pub(super) fn describe(now: &Snapshot) -> String {
    let mut text = format!(
        "{} of {}, {} known, {} zero, {} moved",
        size(now.done),
        size(now.expected),
        size(now.known),
        size(now.zero),
        size(now.moved)
    );
    if let Some(eta) = now.eta.filter(|eta| !eta.is_zero()) {
        text.push_str(&format!(", {} s left", eta.as_secs().max(1)));
    }
    text
}
