//! A system drawn in text.

mod cards;
mod links;

use rocferry_topology::System;

use super::ranges::{plural, ranges};

/// CPUs with what hangs on them, hives, links between GPUs, the GPUs by card, and what cannot be read. Numbers are
/// those of the nodes; many alike are one line.
pub(super) fn draw(system: &System) -> String {
    let mut lines = vec![summary(system)];
    for section in [
        links::cpus(system),
        links::hives(system),
        links::between_gpus(system),
        cards::table(system),
        hidden(system),
    ] {
        if !section.is_empty() {
            lines.push(String::new());
            lines.extend(section);
        }
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn summary(system: &System) -> String {
    let hives = match system.hives().len() {
        0 => "no hive".to_owned(),
        count => plural(count, "hive"),
    };
    format!(
        "{}, {}, {hives}",
        plural(system.cpus().count(), "CPU"),
        plural(system.gpus().count(), "GPU")
    )
}

/// Nodes that may not be read, and the links that lead to these or nowhere.
fn hidden(system: &System) -> Vec<String> {
    let mut lines = Vec::new();
    if !system.masked.is_empty() {
        let mut masked: Vec<u32> = system.masked.iter().map(|node| node.get()).collect();
        masked.sort_unstable();
        let nodes = if masked.len() == 1 { "Node" } else { "Nodes" };
        lines.push(format!(
            "{nodes} {}: hidden, the device cgroup does not allow them here",
            ranges(masked)
        ));
    }
    let linking = system
        .gpus()
        .filter(|gpu| gpu.links.iter().any(|link| !link.valid));
    let mut linking: Vec<u32> = linking.map(|gpu| gpu.node.get()).collect();
    linking.sort_unstable();
    if !linking.is_empty() {
        let known = if system.masked.is_empty() {
            "nodes that are not there"
        } else {
            "hidden nodes"
        };
        lines.push(format!(
            "Links of {} lead to {known}, and count in io_links_count alone",
            links::gpu_names(&linking)
        ));
    }
    lines
}
