//! An archive as a folder: what a checkpoint from a store would be.
//!
//! The archive may come from anywhere. `rocferry_store::archive` lets nothing through but files and directories with plain
//! paths, each once (`docs/interchange.md`); all of it goes into a folder of ours that was empty.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rocferry_store::archive::{self, Archive, BoxError, Content, Entry, Limits, Sink};
use rocferry_store::interchange::{Form, InterchangeError};

use crate::error::Error;

/// How much is copied at a time. A part of zeros becomes a hole.
const PART: usize = 128 << 10;

/// Reads it to its end, and keeps nothing.
pub(crate) async fn look(file: File, form: Form) -> Result<Archive, Error> {
    read(file, form, Nowhere).await
}

/// Unpacks it into a folder that is empty. Some is there if it fails.
pub(crate) async fn unpack(file: File, form: Form, folder: &Path) -> Result<Archive, Error> {
    let folder = folder.to_owned();
    read(file, form, Folder(folder)).await
}

async fn read(
    mut file: File,
    form: Form,
    mut sink: impl Sink + Send + 'static,
) -> Result<Archive, Error> {
    let reading = tokio::task::spawn_blocking(move || {
        let limits = Limits::default();
        match form {
            Form::Archive => archive::read(file, &limits, &mut sink)
                .map_err(InterchangeError::from)
                .map_err(Error::from),
            Form::Image => archive::read_image(&mut file, &limits, &mut sink)
                .map(|image| image.archive)
                .map_err(InterchangeError::from)
                .map_err(Error::from),
        }
    });
    reading.await.map_err(|error| Error::Runtime {
        source: io::Error::other(error),
    })?
}

struct Nowhere;

impl Sink for Nowhere {
    fn directory(&mut self, _: &Entry) -> Result<(), BoxError> {
        Ok(())
    }

    fn file(&mut self, _: &Entry, mut content: Content<'_>) -> Result<(), BoxError> {
        io::copy(&mut content, &mut io::sink())?;
        Ok(())
    }
}

struct Folder(PathBuf);

impl Sink for Folder {
    fn directory(&mut self, entry: &Entry) -> Result<(), BoxError> {
        let made = fs::DirBuilder::new()
            .mode(0o700)
            .create(self.0.join(&entry.path));
        match made {
            // It was made up before it was listed.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn file(&mut self, entry: &Entry, mut content: Content<'_>) -> Result<(), BoxError> {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.0.join(&entry.path))?;
        let mut part = vec![0; PART];
        loop {
            let filled = fill(&mut content, &mut part)?;
            let bytes = part.get(..filled).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            match bytes.iter().all(|byte| *byte == 0) {
                true => {
                    file.seek(SeekFrom::Current(i64::try_from(filled)?))?;
                }
                false => file.write_all(bytes)?,
            }
        }
        // A hole at the end.
        Ok(file.set_len(entry.size())?)
    }
}

fn fill(from: &mut impl Read, part: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = part.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn an_archive_becomes_a_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut pages = vec![0; 3 * PART];
        pages[PART] = 1;
        let mut tar = tar::Builder::new(Vec::new());
        for (path, content) in [
            ("config.dump", b"{\"id\":\"a\"}".as_slice()),
            ("spec.dump", b"{}"),
            ("checkpoint/inventory.img", b"inventory"),
            ("checkpoint/pages-1.img", &pages),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, content).expect("memory");
        }
        let path = dir.path().join("a.tar");
        fs::write(&path, tar.into_inner().expect("memory")).expect("written");
        let to = dir.path().join("tree");
        fs::create_dir(&to).expect("made");
        let file = File::open(&path).expect("there");
        let archive = unpack(file, Form::Archive, &to).await.expect("unpacked");
        assert_eq!(archive.source.container_id.as_deref(), Some("a"));
        let read = fs::read(to.join("checkpoint/pages-1.img")).expect("there");
        assert!(read == pages);
        // Memory of a process is in it: nobody else reads it, whatever the archive says.
        for (name, mode) in [("checkpoint", 0o700), ("checkpoint/pages-1.img", 0o600)] {
            let meta = fs::metadata(to.join(name)).expect("there");
            assert_eq!(meta.permissions().mode() & 0o777, mode, "{name}");
        }
        let again = File::open(&path).expect("there");
        unpack(again, Form::Archive, &to)
            .await
            .expect_err("nothing is written over");
        look(File::open(&path).expect("there"), Form::Archive)
            .await
            .expect("in order");
    }
}
