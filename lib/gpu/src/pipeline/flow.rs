//! How many workers a transfer gets.

use super::{FileEngine, Options, Order, RingLayout};

/// Readers or writers for one GPU: none of them idle for lack of slots or of work, and a single one where
/// the file wants its order kept.
pub(super) fn workers(
    file: &dyn FileEngine,
    options: &Options,
    layout: RingLayout,
    units: usize,
) -> usize {
    let useful = match file.order() {
        Order::Any => units,
        Order::Sequential => 1,
    };
    options.readers.min(useful).min(layout.slots)
}
