//! The environment variable that caps the staging buffers.

use std::ffi::OsStr;

/// Name of the variable, read while dumping and while restoring.
pub const MAX_BUFFER_SIZE_ENV: &str = "KFD_MAX_BUFFER_SIZE";

/// Reads the value of [`MAX_BUFFER_SIZE_ENV`]: a number in C notation (decimal, `0x` hexadecimal, `0`
/// octal) and at most one suffix `k`, `K` (KiB), `M` (MiB) or `G` (GiB).
///
/// Returns the cap in bytes, rounded down to whole pages of `page_size` bytes and at least one page, or
/// `None` for "no cap given" (0, or a value that cannot be understood); and, for the latter, a warning
/// to be logged. `page_size` is a power of two.
#[must_use]
pub fn parse_max_buffer_size(value: &OsStr, page_size: u64) -> (Option<u64>, Option<String>) {
    match value.to_str().and_then(parse_bytes) {
        Some(0) => (None, None),
        Some(bytes) => (Some((bytes & !(page_size - 1)).max(page_size)), None),
        None => {
            let shown = value.to_string_lossy();
            let warning = format!(
                "{MAX_BUFFER_SIZE_ENV}={shown:?} ignored: expected a number with an optional suffix k, K, M or G"
            );
            (None, Some(warning))
        }
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim_start_matches([' ', '\t']);
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let (radix, digits) = if let Some(hex) = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
    {
        (16, hex)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, &digits[1..])
    } else {
        (10, digits)
    };
    // `from_str_radix` takes a leading sign, which has no meaning for a size.
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix)
        .ok()?
        .checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> (Option<u64>, bool) {
        let (bytes, warning) = parse_max_buffer_size(OsStr::new(text), 4096);
        (bytes, warning.is_some())
    }

    #[test]
    fn numbers_and_suffixes() {
        assert_eq!(parse("65536"), (Some(65536), false));
        assert_eq!(parse("0x10000"), (Some(65536), false));
        assert_eq!(parse("0X1M"), (Some(1 << 20), false));
        assert_eq!(parse("0200000"), (Some(65536), false));
        assert_eq!(parse("64k"), (Some(65536), false));
        assert_eq!(parse("64K"), (Some(65536), false));
        assert_eq!(parse("2M"), (Some(2 << 20), false));
        assert_eq!(parse("3G"), (Some(3 << 30), false));
        assert_eq!(parse("0"), (None, false));
        assert_eq!(parse("0G"), (None, false));
    }

    #[test]
    fn values_become_whole_pages() {
        assert_eq!(parse("1"), (Some(4096), false));
        assert_eq!(parse("4095"), (Some(4096), false));
        assert_eq!(parse("4097"), (Some(4096), false));
        assert_eq!(parse("10000"), (Some(8192), false));
        assert_eq!(
            parse("18446744073709551615"),
            (Some(u64::MAX - 4095), false)
        );
    }

    #[test]
    fn garbage_is_reported_and_ignored() {
        for text in [
            "",
            "k",
            "M",
            "x",
            "1KB",
            "1g",
            "1m",
            "1 M",
            "1M ",
            "08",
            "0x",
            "0xG",
            "-1",
            "+1",
            "1.5M",
            "18446744073709551616",
            "17179869184G",
            "64Mi",
            "é",
            "1é",
        ] {
            assert_eq!(parse(text), (None, true), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,12}") {
            let (bytes, warned) = parse(&text);
            prop_assert!(!(bytes.is_some() && warned));
            if let Some(bytes) = bytes {
                prop_assert!(bytes >= 4096 && bytes % 4096 == 0);
            }
        }

        #[test]
        fn what_c_prints_is_read_back(value in 1u64..=u64::MAX >> 1) {
            let expected = (value & !4095).max(4096);
            for text in [format!("{value}"), format!("{value:#x}"), format!("0{value:o}")] {
                prop_assert_eq!(parse(&text), (Some(expected), false));
            }
        }
    }
}
