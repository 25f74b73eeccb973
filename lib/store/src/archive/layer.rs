//! The tars in a checkpoint, for whoever unpacks them: changes of a root file system, `/dev/shm`.

use std::io::{self, Read};

use super::deleted;
use super::input::Input;
use super::output::{END, Member};
use super::{Limits, ReadError, Refusal};

/// The bytes of such a tar, whatever engine wrote it: containerd compresses them. Nothing of what is in it was looked at;
/// no more comes out than [`Limits`] allow.
///
/// # Errors
/// [`ReadError`], also while it is read, as the source of an [`io::Error`].
pub fn open_layer<R: Read>(file: R) -> Result<impl Read, ReadError> {
    Ok(Bytes(Input::open(file, &Limits::default())?))
}

/// A layer with the deletions of `deleted.files`, a JSON list of paths, as Podman and CRI-O write it. It is to be applied
/// before the changes.
///
/// # Errors
/// [`Refusal`]: no such list, or a path that leads out.
pub fn deletions(list: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut layer = Vec::new();
    for path in deleted::parse(list)? {
        let whiteout = Member {
            name: &deleted::whiteout(&path),
            directory: false,
            mode: 0,
            uid: 0,
            gid: 0,
            modified: 0,
            size: 0,
        };
        layer.extend(whiteout.header());
    }
    layer.extend(END);
    Ok(layer)
}

/// What comes out of an input.
pub(super) struct Bytes<R: Read>(pub(super) Input<R>);

impl<R: Read> Read for Bytes<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_layer_is_read_however_it_is_compressed() {
        let plain = vec![7; 3000];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(1));
        gzip.write_all(&plain).expect("memory");
        let gzip = gzip.finish().expect("memory");
        let zstd = zstd::encode_all(plain.as_slice(), 1).expect("memory");
        for file in [&plain, &gzip, &zstd] {
            let mut read = Vec::new();
            open_layer(file.as_slice())
                .expect("opened")
                .read_to_end(&mut read)
                .expect("read");
            assert!(read == plain);
        }
        let cut = gzip.get(..gzip.len() / 2).unwrap_or_default();
        let mut opened = open_layer(cut).expect("opened");
        opened.read_to_end(&mut Vec::new()).expect_err("cut off");
    }

    #[test]
    fn deletions_are_whiteouts_and_lead_nowhere_else() {
        let layer = deletions(br#"["/etc/gone","top"]"#).expect("a list");
        let mut archive = tar::Archive::new(layer.as_slice());
        let names: Vec<_> = archive
            .entries()
            .expect("a tar")
            .map(|entry| {
                entry
                    .expect("a member")
                    .path()
                    .expect("a path")
                    .into_owned()
            })
            .collect();
        assert_eq!(
            names,
            ["etc/.wh.gone", ".wh.top"].map(std::path::PathBuf::from)
        );
        for list in ["{}", r#"["../x"]"#, r#"["/a/../../x"]"#, r#"["/"]"#, "[1]"] {
            deletions(list.as_bytes()).expect_err(list);
        }
        assert_eq!(deletions(b"").expect("empty"), END);
    }
}
