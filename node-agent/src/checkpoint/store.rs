//! The rest of the upload, until the checkpoint is listed.

use std::path::Path;
use std::time::SystemTime;

use rocferry_image::manifest::CheckpointId;
use rocferry_store::push::{Facts, Upload};
use rocferry_store::{Snapshot, Store, StoreError};

use crate::error::Error;
use crate::fault::{Point, pass};
use crate::image::GpuCuts;
use crate::interrupt::Interrupt;

/// Sends what is missing and lists the checkpoint. If that is stopped, it is not listed.
pub(super) async fn finish(
    store: &Store,
    mut upload: Upload,
    tree: &Path,
    mut facts: Facts,
    stop: &mut Interrupt,
) -> Result<(CheckpointId, Snapshot), Error> {
    let progress = upload.progress().clone();
    let added = async {
        let cuts = GpuCuts::of(tree)?;
        stop.or("The checkpoint", upload.add_tree(tree, cuts))
            .await??;
        Ok(pass(Point::BeforeCommit)?)
    };
    if let Err(error) = added.await {
        upload.abort().await;
        return Err(error);
    }
    let mut random = [0; 6];
    getrandom::fill(&mut random).map_err(|error| Error::Runtime {
        source: error.into(),
    })?;
    let id = CheckpointId::new(SystemTime::now(), random);
    facts.id = Some(id.clone());
    match stop.or("The checkpoint", upload.finish(facts)).await {
        Ok(stored) => {
            stored?;
        }
        Err(stopped) => {
            unlist(store, &id).await;
            return Err(stopped);
        }
    }
    pass(Point::Committed)?;
    Ok((id, progress.snapshot()))
}

/// It may have been listed in the last moment.
async fn unlist(store: &Store, id: &CheckpointId) {
    match store.delete(id).await {
        Ok(()) | Err(StoreError::NoCheckpoint { .. }) => {}
        Err(error) => {
            tracing::error!(checkpoint = %id, %error, "Cannot tell whether it is listed, or delete it");
        }
    }
}
