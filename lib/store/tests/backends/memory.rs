//! The store in memory.

use super::suite::*;
use crate::macros::conformance;
use async_trait::async_trait;
use rocferry_store::StoreName;
use rocferry_store::backend::{Backend, BackendError, Existing, Memory};
use std::sync::Arc;

struct InMemory(Memory);

#[async_trait]
impl Place for InMemory {
    fn open(&self, tenant: &StoreName) -> Arc<dyn Backend> {
        Arc::new(self.0.tenant(tenant))
    }

    /// Its map takes nothing but keys.
    async fn litter(&self, _tenant: &StoreName) {}
}

async fn fresh() -> InMemory {
    InMemory(Memory::new(&tenant()))
}

conformance!(fresh);

#[tokio::test]
async fn room_is_limited() {
    let memory = Memory::new(&tenant()).with_room(1000);
    put(&memory, &pack(1), &bytes(1, 600)).await;
    let full = memory
        .put(&pack(2), bytes(2, 401), Existing::Keep, &[])
        .await
        .expect_err("full");
    assert!(matches!(full, BackendError::Full { .. }), "{full:?}");
    memory
        .put(&pack(1), bytes(3, 1000), Existing::Replace, &[])
        .await
        .expect("takes the place of the old one");
}
