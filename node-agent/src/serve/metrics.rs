//! What Prometheus sees: the journal and the tickets as they are at that moment, and what was counted.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::args::Node;
use crate::counters::{BOUNDS, Times};
use crate::journal::{Phase, Record, now_ms};
use crate::ticket::TicketFolder;

type Labels = Vec<(&'static str, String)>;

/// All of it.
pub(super) fn text(node: &Node) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("rocferry");
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    registry.register("agent", "The agent of this node", Info::new(version));
    journal(&mut registry, node);
    tickets(&mut registry, &TicketFolder::new(&node.state));
    counted(&mut registry, node);
    let (recovered, failures) = node.health.recoveries();
    let done = Family::<Labels, Counter>::default();
    for (word, count) in recovered {
        done.get_or_create(&vec![("done", word.to_owned())])
            .inc_by(count);
    }
    registry.register(
        "recovered",
        "Records of an agent that was gone, by what was done",
        done,
    );
    registry.register(
        "recovery_failures",
        "Records that could not be put right, each time",
        ConstCounter::new(failures),
    );
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// A record, and whether nobody works on it.
fn state(record: &Record, free: bool) -> &'static str {
    match (free, record.phase) {
        (false, _) => "under_way",
        (true, Phase::Held) => "held",
        (true, _) => "left",
    }
}

fn journal(registry: &mut Registry, node: &Node) {
    let list = node.journal.list();
    let readable = i64::from(list.is_ok());
    registry.register(
        "journal_readable",
        "1: every record of the journal can be read; 0: nothing is done before it can",
        ConstGauge::new(readable),
    );
    let Ok(list) = list else { return };
    let records = Family::<Labels, Gauge>::default();
    let (mut frozen, mut oldest) = (0, None);
    for (record, free) in &list {
        let labels = vec![
            ("work", record.work.to_string()),
            ("state", state(record, *free).to_owned()),
        ];
        records.get_or_create(&labels).inc();
        let cgroup = record.subject.cgroup.as_ref();
        if cgroup.is_some_and(|cgroup| cgroup.is_frozen().unwrap_or(false)) {
            frozen += 1;
            oldest = oldest.min(Some(record.begun_ms)).or(Some(record.begun_ms));
        }
    }
    registry.register("records", "Records of the journal", records);
    registry.register(
        "containers_frozen",
        "Containers of the journal that stand still",
        ConstGauge::new(i64::from(frozen)),
    );
    let held = list
        .iter()
        .filter(|(record, free)| state(record, *free) == "held");
    registry.register(
        "containers_held",
        "Containers that stay frozen until somebody decides",
        ConstGauge::new(i64::try_from(held.count()).unwrap_or(i64::MAX)),
    );
    let age = oldest.map_or(0, |begun| now_ms().saturating_sub(begun));
    registry.register(
        "oldest_frozen_seconds",
        "How long ago the work was begun whose container stands still for longest; 0: none does",
        ConstGauge::new(age as f64 / 1000.0),
    );
}

fn tickets(registry: &mut Registry, folder: &TicketFolder) {
    let tickets = Family::<Labels, Gauge>::default();
    // Words that are always there, so that an alarm can be made of them.
    for word in ["ready", "restoring", "held", "used", "unreadable"] {
        drop(tickets.get_or_create(&vec![("state", word.to_owned())]));
    }
    for key in folder.ticket_keys().unwrap_or_default() {
        let word = match folder.ticket(&key) {
            Ok(Some(ticket)) => ticket.state.word(),
            // Taken away meanwhile.
            Ok(None) => continue,
            Err(_) => "unreadable",
        };
        tickets
            .get_or_create(&vec![("state", word.to_owned())])
            .inc();
    }
    registry.register("tickets", "Tickets of the runtime wrapper", tickets);
    let fences = folder.fence_keys().unwrap_or_default().len();
    registry.register(
        "fences",
        "Containers that must not be created",
        ConstGauge::new(i64::try_from(fences).unwrap_or(i64::MAX)),
    );
}

fn counted(registry: &mut Registry, node: &Node) {
    let counts = node.counters.read();
    for (name, help, counts) in [
        (
            "checkpoints",
            "Checkpoints by how they ended",
            &counts.checkpoints,
        ),
        ("restores", "Restores by how they ended", &counts.restores),
        (
            "archives",
            "Archives of engines that the daemon was to take into a store",
            &counts.archives,
        ),
    ] {
        registry.register(name, help, outcomes(counts));
    }
    for (name, help, value) in [
        (
            "engine_dumps",
            "Dumps that engines made by their own commands",
            counts.foreign_dumps,
        ),
        (
            "checkpoint_bytes",
            "Bytes of the checkpoints that were made",
            counts.bytes,
        ),
        (
            "sent_bytes",
            "Bytes of them that the store did not have",
            counts.sent_bytes,
        ),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
    registry.register(
        "frozen_seconds",
        "How long containers stood still for a checkpoint",
        Kept(counts.frozen),
    );
}

/// `made`, or `failed:criu` and the like.
fn outcomes(counts: &BTreeMap<String, u64>) -> Family<Labels, Counter> {
    let family = Family::<Labels, Counter>::default();
    for (word, count) in counts {
        let (outcome, reason) = word.split_once(':').unwrap_or((word, ""));
        let labels = vec![
            ("outcome", outcome.to_owned()),
            ("reason", reason.to_owned()),
        ];
        family.get_or_create(&labels).inc_by(*count);
    }
    family
}

/// A histogram that is kept elsewhere.
#[derive(Debug)]
struct Kept(Times);

impl EncodeMetric for Kept {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        let parts = self.0.parts.iter().copied().chain(std::iter::repeat(0));
        let buckets: Vec<(f64, u64)> = bounds.zip(parts).collect();
        encoder.encode_histogram::<NoLabelSet>(self.0.sum, self.0.count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::counters::add_one;
    use crate::journal::{After, Subject, Work};
    use crate::runtime::RuntimeKind;

    #[test]
    fn what_is_there_and_what_was_counted_is_shown() {
        let state = tempfile::tempdir().expect("a folder");
        let node = Node::new(state.path()).expect("a node");
        let subject = Subject {
            runtime: RuntimeKind::Bare,
            name: "7".to_owned(),
            id: "7".to_owned(),
            init: None,
            cgroup: None,
            program: None,
            root: None,
        };
        let mut entry = node
            .journal
            .begin(Work::Freeze, After::KeepFrozen, subject, false)
            .expect("a record");
        node.counters.count(|counts| {
            add_one(&mut counts.checkpoints, "made");
            add_one(&mut counts.checkpoints, "failed:criu");
            counts.bytes = 1234;
            counts.frozen.add(Duration::from_millis(300));
            counts.frozen.add(Duration::from_secs(400));
        });
        let shows = |lines: &[&str]| {
            let text = text(&node).expect("text");
            for line in lines {
                assert!(text.lines().any(|known| known == *line), "{line}: {text}");
            }
        };
        shows(&[
            "rocferry_journal_readable 1",
            "rocferry_records{work=\"freeze\",state=\"under_way\"} 1",
            "rocferry_containers_held 0",
            "rocferry_checkpoints_total{outcome=\"made\",reason=\"\"} 1",
            "rocferry_checkpoints_total{outcome=\"failed\",reason=\"criu\"} 1",
            "rocferry_checkpoint_bytes_total 1234",
            "rocferry_frozen_seconds_count 2",
            "rocferry_frozen_seconds_bucket{le=\"0.25\"} 0",
            "rocferry_frozen_seconds_bucket{le=\"0.5\"} 1",
            "rocferry_frozen_seconds_bucket{le=\"+Inf\"} 2",
            "rocferry_tickets{state=\"held\"} 0",
            "# EOF",
        ]);
        entry.advance(Phase::Held).expect("written");
        drop(entry);
        shows(&[
            "rocferry_records{work=\"freeze\",state=\"held\"} 1",
            "rocferry_containers_held 1",
        ]);
        std::fs::write(state.path().join("journal/x.json"), "{").expect("written");
        shows(&["rocferry_journal_readable 0"]);
    }
}
