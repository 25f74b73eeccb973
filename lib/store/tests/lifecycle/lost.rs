//! An upload that lost its lease without noticing, and a collection that did notice.

use std::time::Duration;

use rocferry_store::{Store, StoreError};

use crate::interleaved::{CALLS, orphans, stopped};
use crate::samples::{collect, expire_leases, memory, push, sound};

/// The lease runs out before the manifest is written. A collection that knows nothing of the manifest deletes while the upload looks at what is
/// there.
#[tokio::test]
async fn an_upload_that_lost_its_lease_looks_in_the_right_order() {
    let (mut failed, mut stored) = (0, 0);
    let stops = (1..CALLS).flat_map(|first| (1..5).map(move |second| (first, second)));
    'uploads: for (first, second) in stops {
        for collection_stop in 1..CALLS {
            let backend = memory();
            let store = orphans(&backend, false).await;
            let work = |store: Store| async move { push(&store, &[1, 2]).await };
            let Some((upload, mut uploading)) = stopped(&backend, first, work).await else {
                break 'uploads;
            };
            expire_leases(&store).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            collect(&store).await.expect("condemned");
            tokio::time::sleep(Duration::from_millis(1)).await;
            let work = |store: Store| async move { collect(&store).await };
            let collection = stopped(&backend, collection_stop, work).await;
            tokio::time::pause();
            tokio::time::advance(store.options().lease).await;
            tokio::time::resume();
            // The call that it stands before is not counted again.
            upload.stop_at(second);
            upload.go();
            let ended = tokio::select! {
                biased;
                () = upload.reached() => None,
                ended = &mut uploading => Some(ended),
            };
            let more = collection.is_some();
            if let Some((collection, collecting)) = collection {
                collection.go();
                collecting.await.expect("no panic").expect("collected");
            }
            upload.go();
            let ended = match ended {
                Some(ended) => ended,
                None => uploading.await,
            };
            match ended.expect("no panic") {
                Ok(_) => stored += 1,
                Err(StoreError::LeaseLost { .. }) => failed += 1,
                Err(other) => panic!("{other:?}"),
            }
            let ids = sound(&store).await;
            assert!(ids.len() <= 1, "{first} {second} {collection_stop}");
            if !more {
                break;
            }
        }
    }
    assert!(
        failed > 20 && stored > 0,
        "{failed} failed, {stored} stored"
    );
}
