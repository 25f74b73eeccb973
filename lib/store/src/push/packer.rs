//! From blocks to packs.

use std::sync::Arc;

use rocferry_image::manifest::BlockId;
use tokio::sync::{Mutex, mpsc};

use super::engine::Engine;
use crate::backend::{Backend, BackendError, Existing, ObjectWriter};
use crate::pack::{EncodedBlock, PackBuilder};
use crate::progress::Count;
use crate::seal::new_pack_id;
use crate::{Key, StoreError};

/// Fills packs until there are no more blocks, or somebody failed.
pub(super) async fn pack(
    engine: &Engine,
    blocks: &Mutex<mpsc::Receiver<EncodedBlock>>,
) -> Result<(), StoreError> {
    let mut open: Option<OpenPack> = None;
    let next = async || blocks.lock().await.recv().await;
    loop {
        let block = tokio::select! {
            block = next() => block,
            () = engine.stopped() => {
                if let Some(pack) = open {
                    pack.abort().await;
                }
                return Ok(());
            }
        };
        match (block, open.take()) {
            (Some(block), pack) => open = add(engine, pack, block).await?,
            (None, Some(pack)) => return pack.finish(engine).await,
            (None, None) => return Ok(()),
        }
    }
}

/// Adds a block. The pack is ended if that fills it, and given up if that fails.
async fn add(
    engine: &Engine,
    pack: Option<OpenPack>,
    block: EncodedBlock,
) -> Result<Option<OpenPack>, StoreError> {
    let id = block.id();
    let begun = match pack {
        Some(pack) => Ok(pack),
        None => OpenPack::begin(engine).await,
    };
    let mut pack = match begun {
        Ok(pack) => pack,
        Err(error) => return wait(engine, error, vec![id]).await.map(|()| None),
    };
    match pack.push(engine, block).await {
        Ok(()) if pack.builder.is_full() => pack.finish(engine).await.map(|()| None),
        Ok(()) => Ok(Some(pack)),
        Err(error) => {
            let mut lost = pack.abort().await;
            lost.push(id);
            wait(engine, error, lost).await.map(|()| None)
        }
    }
}

/// A pack that is being sent.
struct OpenPack {
    builder: PackBuilder,
    writer: Box<dyn ObjectWriter>,
}

impl OpenPack {
    async fn begin(engine: &Engine) -> Result<Self, StoreError> {
        let keys = Arc::clone(&engine.keys);
        let (builder, header) = PackBuilder::new(new_pack_id()?, keys, engine.options.pack_size);
        let key = Key::Pack(builder.pack());
        let mut writer = engine.store.backend().writer(&key).await?;
        match writer.write(header).await {
            Ok(()) => Ok(Self { builder, writer }),
            Err(error) => {
                writer.abort().await;
                Err(error.into())
            }
        }
    }

    async fn push(&mut self, engine: &Engine, block: EncodedBlock) -> Result<(), StoreError> {
        let (_, bytes) = self.builder.push(block)?;
        let length = bytes.len() as u64;
        self.writer.write(bytes).await?;
        engine.progress.add(Count::Moved, length);
        Ok(())
    }

    /// Gives the pack up. Returns what is lost with it.
    async fn abort(self) -> Vec<BlockId> {
        self.writer.abort().await;
        self.builder.ids().collect()
    }

    /// Ends the pack.
    async fn finish(self, engine: &Engine) -> Result<(), StoreError> {
        let Self {
            builder,
            mut writer,
        } = self;
        let ids: Vec<_> = builder.ids().collect();
        let finished = builder.finish()?;
        if let Err(error) = writer.write(finished.tail).await {
            writer.abort().await;
            return wait(engine, error.into(), ids).await;
        }
        if let Err(error) = writer.finish().await {
            return wait(engine, error.into(), ids).await;
        }
        let pack = finished.index.pack;
        let (key, needs) = (Key::Index(pack), [Key::Pack(pack)]);
        let backend = engine.store.backend();
        let put = backend.put(&key, finished.index_object, Existing::Keep, &needs);
        match put.await {
            // Somebody who looked between the two has written the same.
            Ok(()) | Err(BackendError::Exists { .. }) => {}
            // The pack says the same at its end.
            Err(error) if !error.is_permanent() => {
                tracing::warn!(%pack, %error, "Index of a pack not written");
            }
            Err(error) => return Err(error.into()),
        }
        engine.stored(&finished.index);
        Ok(())
    }
}

/// A pack could not be sent: for now, which is worth waiting, or for good.
async fn wait(engine: &Engine, error: StoreError, lost: Vec<BlockId>) -> Result<(), StoreError> {
    let policy = engine.store.options().retry;
    let failing = engine.failing_for();
    if error.is_permanent() || failing >= policy.deadline {
        return Err(error);
    }
    tracing::warn!(blocks = lost.len(), %error, "Pack not sent; its blocks are sent again");
    engine.lost(lost);
    // As long again as it lasts already, within bounds.
    let pause = failing.clamp(policy.first_pause, policy.longest_pause);
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = engine.stopped() => {}
    }
    Ok(())
}
