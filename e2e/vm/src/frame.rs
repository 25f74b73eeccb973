//! The frames that host and guest exchange; `guest/agent.c` is the other side.

use std::io::{self, Read, Write};

const HEADER: usize = 12;
/// The agent sends at most 16 KiB at a time; anything far above is not a frame.
const MAX: u32 = 1 << 20;
/// Longest script in bytes: the agent hands it to bash as one argument.
pub(crate) const MAX_SCRIPT: usize = 120 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FromGuest {
    Ready,
    Output { job: u32, bytes: Vec<u8> },
    Error { job: u32, bytes: Vec<u8> },
    Exit { job: u32, code: i32 },
    Flushed,
}

#[derive(Debug)]
pub(crate) enum ToGuest<'a> {
    Run { job: u32, script: &'a str },
    Kill { job: u32 },
    Stop,
}

impl ToGuest<'_> {
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, job, payload) = match self {
            Self::Run { job, script } => (b'x', *job, script.as_bytes()),
            Self::Kill { job } => (b'k', *job, &[][..]),
            Self::Stop => (b'q', 0, &[][..]),
        };
        let len = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend([kind, 0, 0, 0]);
        bytes.extend(job.to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend(payload);
        to.write_all(&bytes)?;
        to.flush()
    }
}

impl FromGuest {
    /// The next frame; none at the end of the stream.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if let Err(error) = from.read_exact(&mut header) {
            return if error.kind() == io::ErrorKind::UnexpectedEof {
                Ok(None)
            } else {
                Err(error)
            };
        }
        let [kind, _, _, _, a, b, c, d, e, f, g, h] = header;
        let (job, len) = (
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        );
        if len > MAX {
            return Err(io::Error::other(format!("Frame of {len} bytes")));
        }
        let mut bytes = vec![0; len as usize];
        from.read_exact(&mut bytes)?;
        Ok(Some(match kind {
            b'r' => Self::Ready,
            b'b' => Self::Flushed,
            b'o' => Self::Output { job, bytes },
            b'e' => Self::Error { job, bytes },
            b'x' => {
                let code: [u8; 4] = bytes
                    .try_into()
                    .map_err(|_| io::Error::other("Exit frame without a status"))?;
                Self::Exit {
                    job,
                    code: i32::from_le_bytes(code),
                }
            }
            other => return Err(io::Error::other(format!("Frame of kind {other:#x}"))),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(kind: u8, job: u32, payload: &[u8]) -> Vec<u8> {
        let mut v = vec![kind, 0, 0, 0];
        v.extend(job.to_le_bytes());
        v.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
        v.extend(payload);
        v
    }

    #[test]
    fn reads_what_the_agent_writes() {
        let mut bytes = raw(b'r', 0, b"");
        bytes.extend(raw(b'o', 7, b"hi"));
        bytes.extend(raw(b'x', 7, &(-1i32).to_le_bytes()));
        let mut from = bytes.as_slice();
        assert_eq!(FromGuest::read(&mut from).unwrap(), Some(FromGuest::Ready));
        let hi = FromGuest::Output {
            job: 7,
            bytes: b"hi".to_vec(),
        };
        assert_eq!(FromGuest::read(&mut from).unwrap(), Some(hi));
        let exit = FromGuest::Exit { job: 7, code: -1 };
        assert_eq!(FromGuest::read(&mut from).unwrap(), Some(exit));
        assert_eq!(FromGuest::read(&mut from).unwrap(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let huge = [b'o', 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255];
        for bytes in [raw(b'?', 0, b""), raw(b'x', 0, b"1"), huge.to_vec()] {
            FromGuest::read(&mut bytes.as_slice()).unwrap_err();
        }
    }

    #[test]
    fn writes_header_and_script() {
        let mut to = Vec::new();
        ToGuest::Run {
            job: 3,
            script: "ls",
        }
        .write(&mut to)
        .unwrap();
        assert_eq!(to, raw(b'x', 3, b"ls"));
    }
}
