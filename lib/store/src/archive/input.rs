//! The bytes of an archive: decompressed, counted, and not more than there can be.

use std::io::{self, BufReader, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;

use super::{Limits, ReadError};

/// Largest window of a zstd frame, as a power of two: 32 MiB, more than engines make.
const WINDOW_LOG: u32 = 25;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// What is read from, and how much was.
struct Counted<R> {
    /// What was read to see what it is.
    start: io::Cursor<Vec<u8>>,
    inner: R,
    consumed: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = match self.start.read(buf)? {
            0 => self.inner.read(buf)?,
            read => read,
        };
        self.consumed = self.consumed.saturating_add(read as u64);
        Ok(read)
    }
}

enum Decoder<R: Read> {
    Plain(Counted<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Counted<R>>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Counted<R>>>>),
}

/// An archive's bytes.
pub(super) struct Input<R: Read> {
    decoder: Decoder<R>,
    limits: Limits,
    produced: u64,
}

impl<R: Read> Input<R> {
    /// Finds out how it is compressed.
    pub(super) fn open(mut inner: R, limits: &Limits) -> Result<Self, ReadError> {
        let failed = |source| ReadError::Io { at: 0, source };
        let mut start = Vec::with_capacity(ZSTD.len());
        let wanted = ZSTD.len() as u64;
        inner
            .by_ref()
            .take(wanted)
            .read_to_end(&mut start)
            .map_err(failed)?;
        let compression = if start.starts_with(GZIP) {
            Compression::Gzip
        } else if start.starts_with(ZSTD) {
            Compression::Zstd
        } else {
            Compression::None
        };
        let counted = Counted {
            start: io::Cursor::new(start),
            inner,
            consumed: 0,
        };
        let decoder = match compression {
            Compression::None => Decoder::Plain(counted),
            Compression::Gzip => {
                Decoder::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(counted))))
            }
            Compression::Zstd => {
                let buffered = BufReader::new(counted);
                let decoder = zstd::stream::read::Decoder::with_buffer(buffered);
                let mut decoder = decoder.map_err(failed)?;
                decoder.window_log_max(WINDOW_LOG).map_err(failed)?;
                Decoder::Zstd(Box::new(decoder))
            }
        };
        Ok(Self {
            decoder,
            limits: *limits,
            produced: 0,
        })
    }

    pub(super) const fn compression(&self) -> Compression {
        match self.decoder {
            Decoder::Plain(_) => Compression::None,
            Decoder::Gzip(_) => Compression::Gzip,
            Decoder::Zstd(_) => Compression::Zstd,
        }
    }

    /// Bytes that came out.
    pub(super) const fn position(&self) -> u64 {
        self.produced
    }

    /// Bytes that went in. A little more than needed may have.
    pub(super) fn consumed(&self) -> u64 {
        match &self.decoder {
            Decoder::Plain(counted) => counted.consumed,
            Decoder::Gzip(decoder) => decoder.get_ref().get_ref().consumed,
            Decoder::Zstd(decoder) => decoder.get_ref().get_ref().consumed,
        }
    }

    /// Reads some bytes; 0 at the end, and only there if `buf` has room.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Result<usize, ReadError> {
        let read = loop {
            let read = match &mut self.decoder {
                Decoder::Plain(counted) => counted.read(buf),
                Decoder::Gzip(decoder) => decoder.read(buf),
                Decoder::Zstd(decoder) => decoder.read(buf),
            };
            match read {
                Ok(read) => break read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let at = self.produced;
                    return Err(match source.kind() {
                        ErrorKind::UnexpectedEof => ReadError::Truncated { at },
                        _ => ReadError::Io { at, source },
                    });
                }
            }
        };
        self.produced = self.produced.saturating_add(read as u64);
        let consumed = self.consumed();
        let most = self.limits.produced(consumed);
        if self.produced > most {
            return Err(ReadError::Expansion {
                consumed,
                produced: most,
            });
        }
        Ok(read)
    }

    /// Fills `buf`, or as much of it as there is.
    pub(super) fn fill(&mut self, buf: &mut [u8]) -> Result<usize, ReadError> {
        let mut filled = 0;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read(rest)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }
}
