//! The GPUs, those of one card in one row.

use rocferry_topology::{GpuNode, GpuProperties, System, Vram};

use crate::topology::ranges::ranges;

const HEADER: [&str; 8] = [
    "NODE",
    "RENDER NODE",
    "PCI",
    "DEVICE",
    "CHIP",
    "VRAM",
    "XCC",
    "PARTITIONS",
];
/// Ids in one line.
const IDS: usize = 4;

/// A row for each card, with a row more for each few ids.
pub(super) fn table(system: &System) -> Vec<String> {
    let mut cards: Vec<Vec<&GpuNode>> = Vec::new();
    let mut gpus: Vec<&GpuNode> = system.gpus().collect();
    gpus.sort_by_key(|gpu| gpu.node);
    for gpu in gpus {
        match cards.iter_mut().find(|card| share_a_row(card[0], gpu)) {
            Some(card) => card.push(gpu),
            None => cards.push(vec![gpu]),
        }
    }
    if cards.is_empty() {
        return Vec::new();
    }
    let rows: Vec<([String; 8], Vec<String>)> = cards.iter().map(|card| row(card)).collect();
    let mut widths = HEADER.map(str::len);
    for (cells, _) in &rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.len());
        }
    }
    let line = |cells: &[String; 8], ids: &str| -> String {
        let padded = cells.iter().zip(widths);
        let padded: Vec<String> = padded
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}  {ids}", padded.join("  "))
    };
    let mut lines = vec![line(&HEADER.map(str::to_owned), "GPU_ID")];
    for (cells, ids) in rows {
        lines.push(line(&cells, ids.first().map_or("", String::as_str)));
        let empty = HEADER.map(|_| String::new());
        lines.extend(ids.iter().skip(1).map(|ids| line(&empty, ids)));
    }
    lines
}

/// Partitions of one card that are alike.
fn share_a_row(one: &GpuNode, other: &GpuNode) -> bool {
    let chip = |gpu: &GpuNode| {
        (
            gpu.gfx_target_version,
            gpu.num_xcc,
            gpu.compute_partition,
            gpu.memory_partition,
        )
    };
    let place = |gpu: &GpuNode| Some((gpu.domain, card(gpu.location_id?)));
    place(one).is_some()
        && place(one) == place(other)
        && one.properties == other.properties
        && chip(one) == chip(other)
}

/// Bus and device. Function and the top four bits tell partitions of one card apart.
const fn card(location: u32) -> u32 {
    location & 0xfff8
}

fn row(card: &[&GpuNode]) -> ([String; 8], Vec<String>) {
    let gpu = card[0];
    let GpuProperties {
        vendor_id,
        device_id,
        ..
    } = gpu.properties;
    let cells = [
        ranges(card.iter().map(|gpu| gpu.node.get())),
        format!(
            "renderD{}",
            ranges(sorted(card.iter().map(|gpu| gpu.render_minor.get())))
        ),
        pci(gpu, card.len() > 1),
        format!("{vendor_id:04x}:{device_id:04x}"),
        gpu.gfx_target_version.map_or_else(unknown, chip),
        gpu.properties.vram.map_or_else(unknown, memory),
        gpu.num_xcc.map_or_else(unknown, |count| count.to_string()),
        partitions(gpu, card.len()),
    ];
    let ids: Vec<String> = card
        .iter()
        .map(|gpu| format!("{} ({})", gpu.id, gpu.id.get()))
        .collect();
    (cells, ids.chunks(IDS).map(|ids| ids.join(" ")).collect())
}

fn sorted(numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

fn unknown() -> String {
    "-".to_owned()
}

/// `0000:c1:00.0`, for a divided card without the function.
fn pci(gpu: &GpuNode, divided: bool) -> String {
    let Some(location) = gpu.location_id else {
        return unknown();
    };
    let (bus, device, function) = (location >> 8 & 0xff, location >> 3 & 0x1f, location & 7);
    let card = format!("{:04x}:{bus:02x}:{device:02x}", gpu.domain);
    match divided {
        true => card,
        false => format!("{card}.{function}"),
    }
}

/// `gfx90a` for 90010: major, minor and stepping, of which the last two are hexadecimal digits.
fn chip(version: u32) -> String {
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    format!("gfx{major}{minor:x}{stepping:x}")
}

fn memory(vram: Vram) -> String {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let size = match vram.size {
        0..GIB => format!("{} MiB", vram.size / MIB),
        size => {
            let tenths = (u128::from(size) * 10 + u128::from(GIB / 2)) / u128::from(GIB);
            format!("{}.{} GiB", tenths / 10, tenths % 10)
        }
    };
    match vram.public {
        true => size,
        false => size + " private",
    }
}

fn partitions(gpu: &GpuNode, count: usize) -> String {
    let compute = gpu.compute_partition.map(|mode| mode.as_str());
    let memory = gpu.memory_partition.map(|mode| mode.as_str());
    let count = (count > 1).then(|| count.to_string());
    let words: Vec<&str> = [count.as_deref(), compute, memory]
        .into_iter()
        .flatten()
        .collect();
    match words.is_empty() {
        true => unknown(),
        false => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_have_their_usual_names() {
        for (version, name) in [
            (90_402, "gfx942"),
            (90_010, "gfx90a"),
            (90_012, "gfx90c"),
            (100_300, "gfx1030"),
            (110_002, "gfx1102"),
            (80_003, "gfx803"),
        ] {
            assert_eq!(chip(version), name);
        }
    }

    #[test]
    fn sizes_are_rounded() {
        for (public, size, text) in [
            (true, 206_141_652_992, "192.0 GiB"),
            (true, 25_767_706_624, "24.0 GiB"),
            (false, 512 << 20, "512 MiB private"),
            (true, (1 << 30) - 1, "1023 MiB"),
            (true, 3 << 29, "1.5 GiB"),
            (true, u64::MAX, "17179869184.0 GiB"),
        ] {
            assert_eq!(memory(Vram { public, size }), text);
        }
    }
}
