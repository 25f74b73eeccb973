//! Trying again.

use super::suite::*;
use crate::macros::conformance;
use async_trait::async_trait;
use rocferry_store::backend::faulty::{Cut, Faults, Operation};
use rocferry_store::backend::{
    Backend, BackendError, Existing, Faulty, Memory, RetryPolicy, Retrying,
};
use rocferry_store::{Key, Kind, StoreName};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Over a store whose every operation fails once and whose every answer is lost once.
struct OverFaults(Memory);

#[async_trait]
impl Place for OverFaults {
    fn open(&self, tenant: &StoreName) -> Arc<dyn Backend> {
        let faults = Faults {
            first_tries: 1,
            lost_answers: 1,
            ..Faults::default()
        };
        let inner = NotInWriters {
            faulty: Faulty::new(Arc::new(self.0.tenant(tenant)), faults),
            plain: self.0.tenant(tenant),
        };
        let policy = RetryPolicy {
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(2),
            deadline: Duration::from_secs(10),
        };
        Arc::new(Retrying::new(Arc::new(inner), policy))
    }

    async fn litter(&self, _tenant: &StoreName) {}
}

/// What fails inside a writer is the caller's to repeat, so those of the suite get whole ones.
#[derive(Debug)]
struct NotInWriters {
    faulty: Faulty,
    plain: Memory,
}

#[async_trait]
impl Backend for NotInWriters {
    async fn get(
        &self,
        key: &Key,
        range: Option<std::ops::Range<u64>>,
        limit: u64,
    ) -> Result<bytes::Bytes, BackendError> {
        self.faulty.get(key, range, limit).await
    }

    async fn head(&self, key: &Key) -> Result<Option<rocferry_store::backend::Meta>, BackendError> {
        self.faulty.head(key).await
    }

    async fn put(
        &self,
        key: &Key,
        content: bytes::Bytes,
        existing: Existing,
        needs: &[Key],
    ) -> Result<(), BackendError> {
        self.faulty.put(key, content, existing, needs).await
    }

    async fn writer(
        &self,
        key: &Key,
    ) -> Result<Box<dyn rocferry_store::backend::ObjectWriter>, BackendError> {
        self.plain.writer(key).await
    }

    async fn list(
        &self,
        kind: Kind,
    ) -> Result<Vec<(Key, rocferry_store::backend::Meta)>, BackendError> {
        self.faulty.list(kind).await
    }

    async fn delete(&self, key: &Key) -> Result<(), BackendError> {
        self.faulty.delete(key).await
    }
}

async fn fresh() -> OverFaults {
    OverFaults(Memory::new(&tenant()))
}

conformance!(fresh);

fn retrying(faults: Faults, policy: RetryPolicy) -> (Memory, Faulty, Retrying) {
    let memory = Memory::new(&tenant());
    let faulty = Faulty::new(Arc::new(memory.clone()), faults);
    let retrying = Retrying::new(Arc::new(faulty.clone()), policy);
    (memory, faulty, retrying)
}

fn policy(seconds: u64) -> RetryPolicy {
    RetryPolicy {
        first_pause: Duration::from_secs(1),
        longest_pause: Duration::from_secs(8),
        deadline: Duration::from_secs(seconds),
    }
}

fn count(faulty: &Faulty, operation: Operation) -> usize {
    let calls = faulty.calls();
    calls
        .iter()
        .filter(|call| call.operation == operation)
        .count()
}

#[tokio::test(start_paused = true)]
async fn temporary_errors_pass() {
    let faults = Faults {
        first_tries: 4,
        ..Faults::default()
    };
    let (_, faulty, retrying) = retrying(faults, policy(120));
    let begun = Instant::now();
    put(&retrying, &pack(1), &bytes(1, 10)).await;
    assert_eq!(count(&faulty, Operation::Put), 5);
    // 1 + 2 + 4 + 8 seconds, and up to as much again.
    let (least, most) = (Duration::from_secs(15), Duration::from_secs(30));
    let took = begun.elapsed();
    assert!((least..=most).contains(&took), "{took:?}");
    assert_eq!(get(&retrying, &pack(1)).await, bytes(1, 10));
    assert_eq!(keys(&retrying, Kind::Pack).await.len(), 1);
    retrying.delete(&pack(1)).await.expect("delete");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_holds() {
    let faults = Faults {
        first_tries: u32::MAX,
        ..Faults::default()
    };
    let (_, faulty, retrying) = retrying(faults, policy(60));
    let begun = Instant::now();
    let error = retrying.head(&pack(1)).await.expect_err("never succeeds");
    assert!(!error.is_permanent(), "the last error comes as it is");
    let took = begun.elapsed();
    assert!(took <= Duration::from_secs(60), "{took:?}");
    assert!(took >= Duration::from_secs(40), "{took:?}");
    assert!(count(&faulty, Operation::Head) > 4);
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_come_at_once() {
    let faults = Faults {
        permanent_at: Some(1),
        ..Faults::default()
    };
    let (_, faulty, retrying) = retrying(faults, policy(60));
    let begun = Instant::now();
    retrying.head(&pack(1)).await.expect_err("for good");
    retrying.get(&pack(1), None, 1).await.expect_err("absent");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(faulty.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_asks_is_waited() {
    let faults = Faults {
        first_tries: 1,
        retry_after: Some(Duration::from_secs(33)),
        ..Faults::default()
    };
    let (_, faulty, patient) = retrying(faults.clone(), policy(60));
    let begun = Instant::now();
    patient.head(&pack(1)).await.expect("second try");
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(33) && took < Duration::from_secs(34),
        "{took:?}"
    );
    assert_eq!(faulty.calls().len(), 2);
    // Beyond the deadline there is no point in waiting.
    let (_, faulty, hasty) = retrying(faults, policy(30));
    let begun = Instant::now();
    hasty.head(&pack(1)).await.expect_err("not so long");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(faulty.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn never_is_one_try() {
    let faults = Faults {
        first_tries: 1,
        ..Faults::default()
    };
    let (_, faulty, retrying) = retrying(faults, RetryPolicy::NEVER);
    retrying.list(Kind::Pack).await.expect_err("first try");
    assert_eq!(faulty.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_keep_is_a_success() {
    let faults = Faults {
        lost_answers: 1,
        ..Faults::default()
    };
    let (memory, faulty, retrying) = retrying(faults, policy(60));
    put(&retrying, &pack(1), &bytes(1, 10)).await;
    assert_eq!(count(&faulty, Operation::Put), 2);
    // Somebody else's object stays an error: at once, and after a try that failed.
    for first_tries in [0, 1] {
        let key = pack(2 + u8::try_from(first_tries).expect("small"));
        put(&memory, &key, &bytes(2, 10)).await;
        faulty.set_faults(Faults {
            first_tries,
            ..Faults::default()
        });
        for other in [bytes(3, 10), bytes(3, 5), bytes(3, 20)] {
            let error = retrying.put(&key, other, Existing::Keep, &[]).await;
            let error = error.expect_err("not ours");
            assert!(matches!(error, BackendError::Exists { .. }), "{error:?}");
        }
        assert_eq!(get(&memory, &key).await, bytes(2, 10));
    }
    // Without a try before it, the same content is somebody else's as well.
    faulty.set_faults(Faults::default());
    retrying
        .put(&pack(2), bytes(2, 10), Existing::Keep, &[])
        .await
        .expect_err("exists");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_end_of_a_writer_is_a_success() {
    let faults = Faults {
        lost_answers: 1,
        ..Faults::default()
    };
    let (memory, _, retrying) = retrying(faults, policy(60));
    let key = pack(1);
    put(&memory, &key, &bytes(1, 200)).await;
    let mut writer = retrying.writer(&key).await.expect("writer");
    writer.write(bytes(2, 200)).await.expect("write");
    writer.finish().await.expect("it is there");
    assert_eq!(get(&memory, &key).await, bytes(2, 200));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_writer_that_failed_is_an_error() {
    let (memory, faulty, retrying) = retrying(Faults::default(), policy(60));
    let key = pack(1);
    // One of the same size has been there before.
    put(&memory, &key, &bytes(1, 200)).await;
    let mut writer = retrying.writer(&key).await.expect("writer");
    writer.write(bytes(2, 200)).await.expect("write");
    faulty.set_faults(Faults {
        first_tries: 1,
        ..Faults::default()
    });
    writer.finish().await.expect_err("was not done");
    faulty.set_faults(Faults {
        cut: Some(Cut {
            after: 10,
            writers: 1,
        }),
        ..Faults::default()
    });
    let mut writer = retrying.writer(&key).await.expect("writer");
    let error = writer.write(bytes(2, 200)).await.expect_err("cut");
    assert!(!error.is_permanent());
    assert_eq!(get(&memory, &key).await, bytes(1, 200));
}
