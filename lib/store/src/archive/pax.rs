//! Extension headers of POSIX (`LENGTH KEY=VALUE\n`, one after the other).

use super::Refusal;

/// What such a header says about the next member. Values that are empty count as absent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    /// Milliseconds since 1970; 0 for anything before.
    pub(super) modified_ms: Option<u64>,
    pub(super) link: bool,
    pub(super) sparse: PaxSparse,
}

/// What it says about a sparse file of GNU tar.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PaxSparse {
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// Keys of the formats 0.0 and 0.1.
    pub(super) old: bool,
}

impl PaxSparse {
    /// Whether the file is sparse at all.
    pub(super) const fn is_set(&self) -> bool {
        self.major.is_some()
            || self.minor.is_some()
            || self.name.is_some()
            || self.size.is_some()
            || self.old
    }
}

const BROKEN: Refusal = Refusal::Pax {
    reason: "a record has a wrong length",
};

/// Reads the header for one member.
pub(super) fn parse(data: &[u8]) -> Result<Pax, Refusal> {
    let mut pax = Pax::default();
    records(data, |key, value| {
        if value.is_empty() {
            return Ok(());
        }
        match key {
            b"path" => text(&mut pax.path, value),
            b"size" => number(&mut pax.size, "size", value),
            b"uid" => number(&mut pax.uid, "uid", value),
            b"gid" => number(&mut pax.gid, "gid", value),
            b"mtime" => once(&mut pax.modified_ms, time(value)?),
            b"linkpath" => {
                pax.link = true;
                Ok(())
            }
            b"GNU.sparse.major" => number(&mut pax.sparse.major, "GNU.sparse.major", value),
            b"GNU.sparse.minor" => number(&mut pax.sparse.minor, "GNU.sparse.minor", value),
            b"GNU.sparse.name" => text(&mut pax.sparse.name, value),
            b"GNU.sparse.realsize" => number(&mut pax.sparse.size, "GNU.sparse.realsize", value),
            _ => {
                pax.sparse.old |= key.starts_with(b"GNU.sparse.");
                Ok(())
            }
        }
    })?;
    Ok(pax)
}

/// Checks a header for all members to come: it may hold comments and nothing else.
pub(super) fn check_global(data: &[u8]) -> Result<(), Refusal> {
    records(data, |key, _| {
        if key == b"comment" {
            return Ok(());
        }
        let key = super::error::excerpt(key);
        Err(Refusal::Global { key })
    })
}

fn records(
    mut data: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    while !data.is_empty() {
        let digits = data.iter().take(10).position(|byte| *byte == b' ');
        let digits = digits.ok_or(BROKEN)?;
        let length = data.get(..digits).and_then(decimal).ok_or(BROKEN)?;
        let length = usize::try_from(length).map_err(|_| BROKEN)?;
        let (record, rest) = data.split_at_checked(length).ok_or(BROKEN)?;
        let record = record.get(digits + 1..).ok_or(BROKEN)?;
        let record = record.strip_suffix(b"\n").ok_or(BROKEN)?;
        let equals = record.iter().position(|byte| *byte == b'=');
        let (key, value) =
            equals
                .and_then(|at| record.split_at_checked(at))
                .ok_or(Refusal::Pax {
                    reason: "a record has no value",
                })?;
        if key.is_empty() {
            return Err(Refusal::Pax {
                reason: "a record has no key",
            });
        }
        take(key, value.get(1..).unwrap_or_default())?;
        data = rest;
    }
    Ok(())
}

/// A number of digits alone.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Refusal> {
    if slot.replace(value).is_some() {
        return Err(Refusal::Pax {
            reason: "a key is there twice",
        });
    }
    Ok(())
}

fn text(slot: &mut Option<Vec<u8>>, value: &[u8]) -> Result<(), Refusal> {
    if value.contains(&0) {
        return Err(Refusal::ZeroByte);
    }
    once(slot, value.to_vec())
}

fn number(slot: &mut Option<u64>, field: &'static str, value: &[u8]) -> Result<(), Refusal> {
    once(slot, decimal(value).ok_or(Refusal::Number { field })?)
}

/// Seconds with a fraction, as milliseconds.
fn time(value: &[u8]) -> Result<u64, Refusal> {
    let wrong = || Refusal::Number { field: "mtime" };
    let (value, before) = match value.strip_prefix(b"-") {
        Some(value) => (value, true),
        None => (value, false),
    };
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let seconds = parts.next().and_then(decimal).ok_or_else(wrong)?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Err(wrong());
    }
    let mut digits = fraction.iter().map(|digit| u64::from(digit - b'0'));
    let millis = (0..3).fold(0, |sum, _| sum * 10 + digits.next().unwrap_or(0));
    if before {
        return Ok(0);
    }
    let seconds = seconds.checked_mul(1000).ok_or_else(wrong)?;
    seconds.checked_add(millis).ok_or_else(wrong)
}
