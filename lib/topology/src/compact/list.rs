//! Lists of node numbers as the kernel writes lists of CPUs: `0,2-9`.

use crate::NodeId;
use crate::properties::parse_decimal;

/// A list that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListError {
    /// More numbers than asked for.
    TooLong,
    /// What is wrong with it.
    Malformed(&'static str),
}

/// `nodes` ascending. A number that comes twice is written twice.
pub(super) fn write(nodes: &[NodeId]) -> String {
    let mut items: Vec<(u32, u32)> = Vec::new();
    for node in nodes.iter().map(|node| node.get()) {
        match items.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(node) => *last = node,
            _ => items.push((node, node)),
        }
    }
    let items: Vec<String> = items
        .into_iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    items.join(",")
}

/// The numbers, ascending, `limit` at most; nothing is expanded beyond that. An empty text is an empty list.
pub(super) fn read(text: &str, limit: usize) -> Result<Vec<NodeId>, ListError> {
    let mut nodes: Vec<NodeId> = Vec::new();
    if text.is_empty() {
        return Ok(nodes);
    }
    for item in text.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(ListError::Malformed("a range ends before it begins"));
        }
        if nodes.last().is_some_and(|before| before.get() > first) {
            return Err(ListError::Malformed("not in ascending order"));
        }
        let more = u64::from(last - first) + 1;
        if more > (limit - nodes.len()) as u64 {
            return Err(ListError::TooLong);
        }
        nodes.extend((first..=last).map(NodeId));
    }
    Ok(nodes)
}

fn number(text: &str) -> Result<u32, ListError> {
    parse_decimal(text)
        .and_then(|number| u32::try_from(number).ok())
        .ok_or(ListError::Malformed("expected numbers and ranges"))
}
