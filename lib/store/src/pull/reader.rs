//! A file of a checkpoint as a stream of bytes.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use rocferry_image::manifest::{BlockRef, Manifest};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::blocks::Decoders;
use crate::backend::{Backend, BackendError};
use crate::seal::Keys;
use crate::{Key, Store, StoreError};

/// Blocks that are fetched ahead.
const AHEAD: usize = 4;

type Fetching = JoinHandle<Result<Vec<u8>, StoreError>>;

/// The bytes of a file from its first to its last, each block verified before any of it comes. To be read on
/// a thread that may wait, not on one of the runtime's own.
#[derive(Debug)]
pub struct FileReader {
    shared: Arc<Shared>,
    runtime: Handle,
    file: usize,
    /// Span and block that are fetched next.
    next: (usize, usize),
    fetching: VecDeque<Fetching>,
    block: Vec<u8>,
    taken: usize,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    manifest: Arc<Manifest>,
    keys: Arc<Keys>,
    decoders: Decoders,
}

impl Store {
    /// Reads a file of a checkpoint; what is no regular file has no bytes. Whoever reads has to see to it that
    /// the checkpoint is not deleted meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Seal`].
    pub fn read_file(
        &self,
        manifest: &Arc<Manifest>,
        file: usize,
    ) -> Result<FileReader, StoreError> {
        let shared = Shared {
            store: self.clone(),
            manifest: Arc::clone(manifest),
            keys: self.keys(manifest.data_key)?,
            decoders: Decoders::default(),
        };
        Ok(FileReader {
            shared: Arc::new(shared),
            runtime: Handle::current(),
            file,
            next: (0, 0),
            fetching: VecDeque::new(),
            block: Vec::new(),
            taken: 0,
        })
    }
}

impl FileReader {
    /// Begins to fetch the next block, if there is one.
    fn fetch_next(&mut self) -> bool {
        let spans = self.shared.manifest.files.get(self.file);
        let spans = spans.map_or(&[][..], |file| file.spans());
        let (mut number, mut index) = self.next;
        while let Some(span) = spans.get(number) {
            if let Some(block) = span.blocks.get(index) {
                let (shared, block) = (Arc::clone(&self.shared), *block);
                let size = span.block_size(index);
                let fetching = self.runtime.spawn(shared.fetch(block, size));
                self.fetching.push_back(fetching);
                self.next = (number, index + 1);
                return true;
            }
            (number, index) = (number + 1, 0);
        }
        false
    }
}

impl Shared {
    async fn fetch(self: Arc<Self>, block: BlockRef, size: u32) -> Result<Vec<u8>, StoreError> {
        let BlockRef::Stored {
            id,
            pack,
            offset,
            stored,
            encoding,
        } = block
        else {
            return Ok(vec![0; size as usize]);
        };
        // A valid manifest lists the packs of all its blocks.
        let pack = self.manifest.packs.get(pack as usize);
        let pack = *pack.ok_or(StoreError::Lost { block: id })?;
        let range = offset..offset.saturating_add(stored.into());
        let key = Key::Pack(pack);
        let got = self.store.backend().get(&key, Some(range), stored.into());
        let bytes = got.await.map_err(|error| match error {
            BackendError::NotFound { .. } => StoreError::NoPack {
                checkpoint: self.manifest.id.clone(),
                pack,
            },
            error => error.into(),
        })?;
        let decoding = tokio::task::spawn_blocking(move || {
            self.decoders.with(|decoder, _| {
                let plain = decoder.decode(&self.keys, id, size, encoding, &bytes)?;
                Ok(plain.to_vec())
            })
        });
        decoding.await?
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() {
            while self.fetching.len() < AHEAD && self.fetch_next() {}
            let Some(fetching) = self.fetching.pop_front() else {
                return Ok(0);
            };
            let fetched = self.runtime.block_on(fetching);
            let fetched = fetched.map_err(StoreError::from).flatten();
            self.block = fetched.map_err(io::Error::other)?;
            self.taken = 0;
        }
        let rest = self.block.get(self.taken..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.taken += length;
        Ok(length)
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        for fetching in &self.fetching {
            fetching.abort();
        }
    }
}
