//! Names and numbers on the command line and in tables.

use std::time::Duration;

/// Bytes for people: three digits and a unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut name = "";
    for unit in UNITS {
        value /= 1024.0;
        name = unit;
        if value < 999.5 {
            break;
        }
    }
    let digits = if value < 9.95 { 1 } else { 0 };
    format!("{value:.digits$} {name}")
}

/// How long ago something was.
pub(crate) fn age(then_ms: u64, now_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(then_ms) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A duration on the command line: a number and `s`, `m`, `h`, `d` or `w`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wanted = || "a number and one of s, m, h, d, w is expected, as in 36h".to_owned();
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(wanted()),
    };
    let number: u64 = number.parse().map_err(|_| wanted())?;
    let seconds = number.checked_mul(seconds).ok_or_else(wanted)?;
    Ok(Duration::from_secs(seconds))
}

/// A size on the command line: a number, and maybe `K`, `M`, `G` or `T`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wanted = || "a number and maybe one of K, M, G, T is expected, as in 500G".to_owned();
    let (number, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        Some(b'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: u64 = number.parse().map_err(|_| wanted())?;
    number.checked_mul(1 << shift).ok_or_else(wanted)
}

/// Lines of a table: columns padded to the widest of each.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| plain(cell)).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Text from a checkpoint or an archive without what a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() {
            true => plain.extend(char.escape_default()),
            false => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_at_most() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (10 << 20, "10 MiB"),
            (1023 << 20, "1.0 GiB"),
            (192 << 30, "192 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn durations_and_sizes_need_no_guess() {
        assert_eq!(duration("36h"), Ok(Duration::from_secs(36 * 3600)));
        assert_eq!(duration("2w"), Ok(Duration::from_secs(14 * 86_400)));
        for wrong in [
            "",
            "h",
            "3",
            "3é",
            "-1d",
            "99999999999999999999d",
            "9999999999999999d",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(bytes("500G"), Ok(500 << 30));
        assert_eq!(bytes("17"), Ok(17));
        for wrong in ["", "G", "1.5G", "5g", "99999999T", "é"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_table_obeys_nobody() {
        let row = ["\u{1b}]0;title\u{7}", "two\nlines"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(table(&[row]), "\\u{1b}]0;title\\u{7}  two\\nlines\n");
    }

    #[test]
    fn ages_are_short() {
        assert_eq!(age(0, 119_000), "119 s");
        assert_eq!(age(5000, 0), "0 s");
        assert_eq!(age(0, 7_100_000), "118 min");
        assert_eq!(age(0, 86_400_000), "24 h");
        assert_eq!(age(0, 864_000_000), "10 d");
    }
}
