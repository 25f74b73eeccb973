//! Random things in random order, against a list of what there should be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rocferry_image::manifest::CheckpointId;
use rocferry_store::backend::Backend;
use rocferry_store::push::Facts;
use rocferry_store::{Kind, Store, StoreError};

use crate::samples::{
    begin, collect, collect_all, count, directory, expire_leases, key_file, memory, open_with,
    push, sound,
};
use crate::steps::Steps;

struct Model {
    backend: Arc<dyn Backend>,
    store: Store,
    random: fastrand::Rng,
    /// What there should be, and whether it is pinned.
    checkpoints: BTreeMap<CheckpointId, bool>,
    /// What was deleted: maybe while its upload stood between its manifest and its end.
    deleted: BTreeSet<CheckpointId>,
    /// Uploads that stand still, and may go on.
    standing: Vec<(
        Steps,
        tokio::task::JoinHandle<Result<CheckpointId, StoreError>>,
    )>,
    log: Vec<String>,
}

impl Model {
    async fn new(backend: Arc<dyn Backend>, seed: u64) -> Self {
        let store = open_with(&backend, &key_file()).await;
        Self {
            backend,
            store,
            random: fastrand::Rng::with_seed(seed),
            checkpoints: BTreeMap::new(),
            deleted: BTreeSet::new(),
            standing: Vec::new(),
            log: vec![format!("seed {seed}")],
        }
    }

    /// Of few different ones, so that checkpoints share some.
    fn blocks(&mut self) -> Vec<u64> {
        let count = self.random.usize(1..6);
        (0..count).map(|_| self.random.u64(0..12)).collect()
    }

    fn any(&mut self) -> Option<CheckpointId> {
        let index = self.random.usize(0..self.checkpoints.len().max(1));
        self.checkpoints.keys().nth(index).cloned()
    }

    async fn step(&mut self) {
        // Times are in milliseconds.
        tokio::time::sleep(Duration::from_millis(1)).await;
        match self.random.u32(0..12) {
            0..3 => {
                let blocks = self.blocks();
                self.log.push(format!("push {blocks:?}"));
                let id = push(&self.store, &blocks).await.expect("stored").id;
                self.checkpoints.insert(id, false);
            }
            3..5 => self.stand().await,
            5 => self.go_on().await,
            6 => self.crash().await,
            7 => {
                if let Some(id) = self.any() {
                    let pinned = !self.checkpoints[&id];
                    self.log.push(format!("pin {id} {pinned}"));
                    match pinned {
                        true => self.store.pin(&id, "model").await.expect("pinned"),
                        false => assert!(self.store.unpin(&id).await.expect("unpinned")),
                    }
                    self.checkpoints.insert(id, pinned);
                }
            }
            8..10 => {
                if let Some(id) = self.any() {
                    self.log.push(format!("delete {id}"));
                    match (self.store.delete(&id).await, self.checkpoints[&id]) {
                        (Ok(()), false) => {
                            self.checkpoints.remove(&id);
                            self.deleted.insert(id);
                        }
                        (Err(StoreError::Pinned { .. }), true) => {}
                        (other, pinned) => panic!("{other:?}, pinned: {pinned}; {:?}", self.log),
                    }
                }
            }
            _ => {
                self.log.push("gc".to_owned());
                collect(&self.store).await.expect("collected");
            }
        }
    }

    /// An upload that stops somewhere, if it does not end before.
    async fn stand(&mut self) {
        let (stop, blocks) = (self.random.u64(1..25), self.blocks());
        self.log.push(format!("begin {blocks:?}, stop at {stop}"));
        let steps = Steps::new(&self.backend, 0);
        let shared: Arc<dyn Backend> = Arc::new(steps.clone());
        let store = open_with(&shared, &key_file()).await;
        steps.stop_at(stop);
        let mut running = tokio::spawn(async move {
            let upload = begin(&store, &blocks).await?;
            Ok(upload.finish(Facts::default()).await?.id)
        });
        tokio::select! {
            biased;
            () = steps.reached() => self.standing.push((steps, running)),
            ended = &mut running => {
                let id = ended.expect("no panic").expect("stored");
                self.checkpoints.insert(id, false);
            }
        }
        self.see().await;
    }

    async fn go_on(&mut self) {
        if self.standing.is_empty() {
            return;
        }
        self.log.push("go on".to_owned());
        let (steps, running) = self.standing.swap_remove(0);
        steps.go();
        let id = running.await.expect("no panic").expect("stored");
        if !self.deleted.contains(&id) {
            self.checkpoints.entry(id).or_insert(false);
        }
    }

    async fn crash(&mut self) {
        if self.standing.is_empty() {
            return;
        }
        self.log.push("crash".to_owned());
        let (_, running) = self.standing.swap_remove(0);
        running.abort();
        running.await.expect_err("killed");
    }

    /// An upload that stands after its manifest is written has stored its checkpoint.
    async fn see(&mut self) {
        for one in self.store.list().await.expect("listed") {
            self.checkpoints.entry(one.id).or_insert(false);
        }
    }

    async fn check(&self) {
        let ids = sound(&self.store).await;
        let expected: Vec<_> = self.checkpoints.keys().cloned().collect();
        assert_eq!(ids, expected, "{:?}", self.log);
    }

    async fn end(mut self) {
        while !self.standing.is_empty() {
            if self.random.bool() {
                self.go_on().await;
            } else {
                self.crash().await;
            }
            self.check().await;
        }
        expire_leases(&self.store).await;
        collect_all(&self.store).await;
        self.check().await;
        // Each pack that is left is needed.
        let report = crate::samples::deep(&self.store).await;
        assert_eq!(report.orphans.packs, 0, "{:?}", self.log);
        for id in self.checkpoints.keys() {
            self.store.unpin(id).await.expect("unpinned");
            self.store.delete(id).await.expect("deleted");
        }
        collect_all(&self.store).await;
        for kind in [
            Kind::Pack,
            Kind::Index,
            Kind::Condemned,
            Kind::Lease,
            Kind::Pin,
        ] {
            assert_eq!(count(&self.store, kind).await, 0, "{kind:?} {:?}", self.log);
        }
    }
}

async fn run(backend: Arc<dyn Backend>, seed: u64, steps: usize) {
    let mut model = Model::new(backend, seed).await;
    for _ in 0..steps {
        model.step().await;
        model.check().await;
    }
    model.end().await;
}

#[tokio::test]
async fn whatever_happens_every_listed_checkpoint_is_whole() {
    for seed in 0..25 {
        run(memory(), seed, 60).await;
    }
}

#[tokio::test]
async fn whatever_happens_in_a_directory_every_listed_checkpoint_is_whole() {
    for seed in 100..103 {
        let (backend, _dir) = directory();
        run(backend, seed, 30).await;
    }
}
