//! gRPC's health protocol, as much as a probe needs: one request with a name, one answer with a number.

/// Path of the only method.
pub(super) const METHOD: &str = "/grpc.health.v1.Health/Check";

/// Field 1, a string.
const SERVICE: u8 = 0x0a;

/// The service that a request asks for; `None` if it cannot be understood. `message`: a frame: compressed or not,
/// four bytes of length, then the message.
pub(super) fn service(message: &[u8]) -> Option<String> {
    let (header, body) = message.split_first_chunk::<5>()?;
    let [compressed, length @ ..] = header;
    let body = body.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    match body {
        _ if *compressed != 0 => None,
        [] => Some(String::new()),
        // Names are shorter than 128 bytes here: their length is one byte.
        [SERVICE, length, name @ ..] if name.len() == usize::from(*length) && *length < 128 => {
            String::from_utf8(name.to_vec()).ok()
        }
        _ => None,
    }
}

/// The frame that says SERVING (1) or NOT_SERVING (2).
pub(super) const fn status(serving: bool) -> [u8; 7] {
    [0, 0, 0, 0, 2, 0x08, if serving { 1 } else { 2 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_nonsense_is_not() {
        assert_eq!(service(&[0, 0, 0, 0, 0]), Some(String::new()));
        assert_eq!(service(b"\0\0\0\0\x05\x0a\x03abc"), Some("abc".to_owned()));
        for bad in [
            &b""[..],
            b"\0\0\0\0",
            b"\x01\0\0\0\0",
            b"\0\0\0\0\x05\x0a\x03ab",
            b"\0\0\0\0\x05\x0a\x04abc",
            b"\0\xff\xff\xff\xff\x0a\x03abc",
            b"\0\0\0\0\x05\x12\x03abc",
            b"\0\0\0\0\x03\x0a\x01\xff",
        ] {
            assert_eq!(service(bad), None, "{bad:?}");
        }
    }
}
