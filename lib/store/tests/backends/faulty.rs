//! The wrapper that fails as it is told.

use super::suite::*;
use crate::macros::conformance;
use async_trait::async_trait;
use bytes::Bytes;
use rocferry_store::backend::faulty::{Call, Cut, Faults, Operation};
use rocferry_store::backend::{Backend, BackendError, Existing, Faulty, Memory};
use rocferry_store::{Key, Kind, StoreName};
use std::sync::Arc;
use std::time::Duration;

struct WithoutFaults(Memory);

#[async_trait]
impl Place for WithoutFaults {
    fn open(&self, tenant: &StoreName) -> Arc<dyn Backend> {
        let inner = Arc::new(self.0.tenant(tenant));
        Arc::new(Faulty::new(inner, Faults::default()))
    }

    async fn litter(&self, _tenant: &StoreName) {}
}

async fn fresh() -> WithoutFaults {
    WithoutFaults(Memory::new(&tenant()))
}

conformance!(fresh);

fn faulty(faults: Faults) -> (Memory, Faulty) {
    let memory = Memory::new(&tenant());
    (memory.clone(), Faulty::new(Arc::new(memory), faults))
}

fn is_temporary(error: &BackendError) -> bool {
    matches!(error, BackendError::Unavailable { .. })
}

#[tokio::test]
async fn the_first_tries_of_each_operation_fail() {
    let (memory, faulty) = faulty(Faults {
        first_tries: 2,
        retry_after: Some(Duration::from_secs(7)),
        ..Faults::default()
    });
    for key in [pack(1), pack(2)] {
        for _ in 0..2 {
            let error = faulty.put(&key, bytes(1, 10), Existing::Keep, &[]).await;
            let error = error.expect_err("a first try");
            assert!(
                matches!(error, BackendError::Unavailable { retry_after: Some(wait), .. }
                    if wait == Duration::from_secs(7)),
                "{error:?}"
            );
            assert_eq!(memory.head(&key).await.expect("head"), None);
        }
        put(&faulty, &key, &bytes(1, 10)).await;
    }
    for _ in 0..2 {
        let error = faulty.list(Kind::Pack).await.expect_err("a first try");
        assert!(is_temporary(&error));
    }
    assert_eq!(keys(&faulty, Kind::Pack).await.len(), 2);
}

#[tokio::test]
async fn a_lost_answer_is_of_something_done() {
    let (memory, faulty) = faulty(Faults {
        lost_answers: 1,
        ..Faults::default()
    });
    let key = pack(1);
    let error = faulty.put(&key, bytes(1, 10), Existing::Keep, &[]).await;
    assert!(is_temporary(&error.expect_err("lost")));
    assert_eq!(get(&memory, &key).await, bytes(1, 10));
    let mut writer = faulty.writer(&pack(2)).await.expect("writer");
    writer.write(bytes(2, 10)).await.expect("write");
    assert!(is_temporary(&writer.finish().await.expect_err("lost")));
    assert_eq!(get(&memory, &pack(2)).await, bytes(2, 10));
    assert!(is_temporary(&faulty.delete(&key).await.expect_err("lost")));
    assert_eq!(memory.head(&key).await.expect("head"), None);
    faulty.delete(&key).await.expect("only the first");
}

#[tokio::test]
async fn the_call_of_a_number_fails_for_good() {
    let (_, faulty) = faulty(Faults {
        permanent_at: Some(3),
        ..Faults::default()
    });
    put(&faulty, &pack(1), &bytes(1, 10)).await;
    get(&faulty, &pack(1)).await;
    let error = faulty.head(&pack(1)).await.expect_err("the third");
    assert!(error.is_permanent());
    get(&faulty, &pack(1)).await;
}

#[tokio::test]
async fn a_cut_writer_breaks_in_the_middle() {
    let (_, faulty) = faulty(Faults {
        cut: Some(Cut {
            after: 150,
            writers: 1,
        }),
        ..Faults::default()
    });
    let mut writer = faulty.writer(&pack(1)).await.expect("writer");
    writer.write(bytes(1, 100)).await.expect("fits");
    assert!(is_temporary(
        &writer.write(bytes(1, 100)).await.expect_err("cut")
    ));
    writer
        .write(Bytes::new())
        .await
        .expect_err("of no more use");
    writer.finish().await.expect_err("not whole");
    assert_absent(&faulty, &pack(1)).await;
    let mut writer = faulty.writer(&pack(1)).await.expect("writer");
    writer
        .write(bytes(1, 200))
        .await
        .expect("the second is not cut");
    writer.finish().await.expect("finish");
}

#[tokio::test]
async fn a_stale_list_is_the_one_before() {
    let (_, faulty) = faulty(Faults {
        stale_lists: true,
        ..Faults::default()
    });
    assert_eq!(keys(&faulty, Kind::Pack).await.len(), 0);
    put(&faulty, &pack(1), &bytes(1, 10)).await;
    assert_eq!(keys(&faulty, Kind::Pack).await.len(), 0);
    assert_eq!(keys(&faulty, Kind::Pack).await.len(), 1);
    faulty.delete(&pack(1)).await.expect("delete");
    assert_eq!(keys(&faulty, Kind::Pack).await.len(), 1);
    faulty.set_faults(Faults::default());
    assert_eq!(keys(&faulty, Kind::Pack).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_are_remembered_and_can_be_slow() {
    let (_, faulty) = faulty(Faults {
        delay: Duration::from_secs(3),
        ..Faults::default()
    });
    let begun = tokio::time::Instant::now();
    put(&faulty, &Key::Store, &bytes(1, 10)).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    faulty.get(&pack(1), None, 1).await.expect_err("absent");
    let call = |operation, object: &str, bytes, succeeded| Call {
        operation,
        object: object.to_owned(),
        bytes,
        succeeded,
    };
    assert_eq!(
        faulty.calls(),
        [
            call(Operation::Put, "store", 10, true),
            call(Operation::Get, &pack(1).to_string(), 0, false),
        ]
    );
}
