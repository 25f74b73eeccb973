//! Between archives of other engines and the store.
//!
//! An archive is read twice: first to its end, so that nothing is stored of one that is refused, then block
//! by block where its files lie. What does not lie there as it is (the archive is compressed, a file has
//! holes) waits in a file of its own meanwhile.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rocferry_image::manifest::Manifest;
use thiserror::Error;
use tokio::runtime::Handle;

use crate::archive::{
    self, Archive, BoxError, Engine, Entry, Facts, ImageError, ImageNames, Limits, ReadError, Sink,
    WriteError, Written, WrittenImage,
};
use crate::lease::Held;
use crate::push::{NewContent, NewEntry, Readable, Source, Upload};
use crate::{Store, StoreError};

/// An import or export that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InterchangeError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive is refused, or cannot be read.
    #[error("The archive cannot be imported")]
    Read(#[from] ReadError),
    /// The image is refused, or cannot be read or written.
    #[error("The image cannot be used")]
    Image(#[from] ImageError),
    /// The engine needs something that the checkpoint does not have.
    #[error("The checkpoint cannot be exported")]
    Write(#[from] WriteError),
    /// No archive holds links.
    #[error("The checkpoint cannot be exported: {path} is a symbolic link, which no engine takes")]
    Link {
        /// The link.
        path: String,
    },
}

/// What an archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A tar of a checkpoint, compressed or not.
    Archive,
    /// The tar of an OCI image layout whose layer is a checkpoint.
    Image,
}

impl Upload {
    /// Adds all files of an archive, once it was found to be in order. `spool` is a directory with room for
    /// what does not lie in the archive as it is.
    ///
    /// # Errors
    /// [`InterchangeError::Read`] and [`InterchangeError::Image`] for all that is refused: nothing was added then.
    pub async fn add_archive(
        &mut self,
        file: File,
        form: Form,
        spool: &Path,
    ) -> Result<Archive, InterchangeError> {
        let spool = spool.to_owned();
        let read = tokio::task::spawn_blocking(move || {
            let waiting = tempfile::tempfile_in(&spool);
            let waiting = waiting.map_err(StoreError::file("Making a file in", spool))?;
            let mut members = Members {
                archive: Arc::new(file),
                waiting: Arc::new(waiting),
                end: 0,
                entries: Vec::new(),
                directories: HashMap::new(),
            };
            let mut input = &*Arc::clone(&members.archive);
            let limits = Limits::default();
            let archive = match form {
                Form::Archive => archive::read(input, &limits, &mut members)?,
                Form::Image => archive::read_image(&mut input, &limits, &mut members)?.archive,
            };
            Ok::<_, InterchangeError>((archive, members.entries))
        });
        let (archive, entries) = read.await.map_err(StoreError::from)??;
        for entry in entries {
            self.add(entry)?;
        }
        Ok(archive)
    }
}

/// Members of an archive, and where their content is.
struct Members {
    archive: Arc<File>,
    /// Content that does not lie in the archive as it is.
    waiting: Arc<File>,
    end: u64,
    entries: Vec<NewEntry>,
    /// Where in that list each directory is.
    directories: HashMap<String, usize>,
}

impl Members {
    fn add(&mut self, entry: &Entry, content: NewContent) {
        self.entries.push(new_entry(entry, content));
    }
}

fn new_entry(entry: &Entry, content: NewContent) -> NewEntry {
    NewEntry {
        path: entry.path.clone(),
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        modified_ms: entry.modified_ms,
        content,
    }
}

impl Sink for Members {
    fn directory(&mut self, entry: &Entry) -> Result<(), BoxError> {
        let known = self.directories.get(&entry.path).copied();
        match known.and_then(|place| self.entries.get_mut(place)) {
            // It was made up, and is listed after all.
            Some(known) => *known = new_entry(entry, NewContent::Directory),
            None => {
                let path = entry.path.clone();
                self.directories.insert(path, self.entries.len());
                self.add(entry, NewContent::Directory);
            }
        }
        Ok(())
    }

    fn file(&mut self, entry: &Entry, mut content: archive::Content<'_>) -> Result<(), BoxError> {
        let (file, start) = match content.offset() {
            Some(offset) => (Arc::clone(&self.archive), offset),
            None => {
                let start = self.end;
                let mut out = At(&self.waiting, start);
                self.end = start.saturating_add(io::copy(&mut content, &mut out)?);
                (Arc::clone(&self.waiting), start)
            }
        };
        let readable = Readable::complete(entry.size(), Vec::new())?;
        self.add(
            entry,
            NewContent::Regular(Source::Open(file, start), readable),
        );
        Ok(())
    }
}

/// Writes to a file from some byte on.
struct At<'a>(&'a File, u64);

impl Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write_at(bytes, self.1)?;
        self.1 += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Store {
    /// Writes a checkpoint as an archive that the engine restores.
    ///
    /// # Errors
    /// [`InterchangeError`]. Some may be written by then.
    pub async fn export<W: Write + Send + 'static>(
        &self,
        manifest: Arc<Manifest>,
        engine: Engine,
        out: W,
    ) -> Result<Written, InterchangeError> {
        let facts = Facts::from_source(&manifest.source);
        self.exported(manifest, move |files| {
            Ok(archive::write(files, engine, &facts, out)?)
        })
        .await
    }

    /// Writes a checkpoint as an OCI image that the engine restores, and that all engines see to be a
    /// checkpoint. The file has to be empty.
    ///
    /// # Errors
    /// [`InterchangeError`]. Some may be written by then.
    pub async fn export_image<W: Write + Seek + Send + 'static>(
        &self,
        manifest: Arc<Manifest>,
        engine: Engine,
        names: ImageNames,
        mut out: W,
    ) -> Result<WrittenImage, InterchangeError> {
        let facts = Facts::from_source(&manifest.source);
        self.exported(manifest, move |files| {
            Ok(archive::write_image(
                files, engine, &facts, &names, &mut out,
            )?)
        })
        .await
    }

    async fn exported<T: Send + 'static>(
        &self,
        manifest: Arc<Manifest>,
        write: impl FnOnce(&mut Files) -> Result<T, InterchangeError> + Send + 'static,
    ) -> Result<T, InterchangeError> {
        let lease = Held::reading(self, &manifest).await?;
        let (store, runtime) = (self.clone(), Handle::current());
        let writing =
            tokio::task::spawn_blocking(move || write(&mut Files::of(store, manifest, runtime)?));
        let written = writing.await.map_err(StoreError::from);
        lease.release().await;
        written?
    }
}

/// The files of a checkpoint, as [`archive::write`] wants them.
struct Files {
    store: Store,
    manifest: Arc<Manifest>,
    runtime: Handle,
    entries: Vec<Entry>,
    /// The number in the manifest of each of them.
    numbers: Vec<usize>,
}

impl Files {
    fn of(
        store: Store,
        manifest: Arc<Manifest>,
        runtime: Handle,
    ) -> Result<Self, InterchangeError> {
        let (mut entries, mut numbers) = (Vec::new(), Vec::new());
        for (number, file) in manifest.files.iter().enumerate() {
            match Entry::from_file(file) {
                Some(entry) => {
                    entries.push(entry);
                    numbers.push(number);
                }
                None => {
                    let path = file.path.clone();
                    return Err(InterchangeError::Link { path });
                }
            }
        }
        Ok(Self {
            store,
            manifest,
            runtime,
            entries,
            numbers,
        })
    }
}

impl archive::Source for Files {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn open(&mut self, index: usize) -> Result<Box<dyn io::Read + '_>, BoxError> {
        let number = self.numbers.get(index).copied().unwrap_or(usize::MAX);
        let _runtime = self.runtime.enter();
        Ok(Box::new(self.store.read_file(&self.manifest, number)?))
    }
}
