//! What S3 servers and registries have in common.

use std::time::Duration;

/// How long a server asks to wait: its `Retry-After`, in seconds. Servers of ours never send the other form,
/// a date, which would need their clock to be right.
pub(super) fn retry_after(header: Option<&[u8]>) -> Option<Duration> {
    let text = std::str::from_utf8(header?).ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read() {
        let of = |text: &str| retry_after(Some(text.as_bytes()));
        assert_eq!(of(" 30"), Some(Duration::from_secs(30)));
        assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), None);
        assert_eq!(of("-1"), None);
        assert_eq!(retry_after(None), None);
    }
}
