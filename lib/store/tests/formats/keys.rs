//! A store's keys in a store.

use age::secrecy::ExposeSecret;
use rocferry_store::backend::{Backend, Existing, Memory};
use rocferry_store::envelope::StoreDescription;
use rocferry_store::seal::{DataKey, KeyConfig, KeyObject, Keyring, Keys, SealError, open_store};
use rocferry_store::{Key, Kind, StoreName};

use crate::samples::key_file;

fn store() -> Memory {
    Memory::new(&StoreName::default())
}

fn identity() -> String {
    let identity = age::x25519::Identity::generate();
    identity.to_string().expose_secret().to_owned()
}

fn with_identities(secrets: &[&str]) -> KeyConfig {
    let mut config = KeyConfig::new();
    config
        .add_identities(&secrets.join("\n"))
        .expect("identities");
    config
}

async fn open(store: &Memory, config: &KeyConfig) -> Result<Keyring, SealError> {
    open_store(store, config, 1000)
        .await
        .map(|(_, keyring)| keyring)
}

async fn put(store: &Memory, object: &KeyObject) {
    let key = Key::DataKey(object.id());
    store
        .put(&key, object.encode(), Existing::Keep, &[])
        .await
        .expect("put");
}

#[tokio::test]
async fn a_store_is_opened_as_it_was_made() {
    let secret = identity();
    for config in [KeyConfig::new(), key_file(1), with_identities(&[&secret])] {
        let store = store();
        let (made, first) = open_store(&store, &config, 1000).await.expect("made");
        let (read, second) = open_store(&store, &config, 2000).await.expect("opened");
        assert_eq!(made, read);
        assert_eq!(read.created_ms, 1000);
        assert_eq!(first.is_sealed(), !config.is_empty());
        assert_eq!(first.current().id(), second.current().id());
        assert_eq!(
            first.current().block_id(b"x"),
            second.current().block_id(b"x")
        );
        assert_eq!(read.root_key, first.current().id());
    }
    let [a, b] = [
        open(&store(), &KeyConfig::new()).await,
        open(&store(), &KeyConfig::new()).await,
    ];
    let [a, b] = [a.expect("a"), b.expect("b")].map(|ring| ring.current().block_id(b"x"));
    assert_ne!(a, b, "the same block in two stores");
}

#[tokio::test]
async fn what_does_not_fit_the_store_is_said() {
    let sealed = store();
    let keyring = open(&sealed, &key_file(1)).await.expect("made");
    let root = keyring.current().id().expect("sealed");
    let error = open(&sealed, &KeyConfig::new()).await.expect_err("no key");
    let text = error.to_string();
    assert!(text.starts_with(&format!(
        "The store is sealed (data key {root}, wrapped for key-file:"
    )));
    assert!(
        text.ends_with("); no identity and no key file is given"),
        "{text}"
    );
    let error = open(&sealed, &key_file(2)).await.expect_err("another file");
    assert!(
        matches!(error, SealError::WrongKey { key, .. } if key == root),
        "{error}"
    );
    assert!(error.is_permanent());
    let error = open(&sealed, &with_identities(&[&identity()]))
        .await
        .expect_err("an identity");
    assert!(matches!(error, SealError::WrongKey { .. }), "{error}");

    let plain = store();
    open(&plain, &KeyConfig::new()).await.expect("made");
    let error = open(&plain, &key_file(1)).await.expect_err("not sealed");
    assert_eq!(
        error.to_string(),
        "The store is not sealed, although keys are given"
    );

    // Neither of these makes a store that could not be used.
    let mut recipients = KeyConfig::new();
    let public = age::x25519::Identity::generate().to_public().to_string();
    recipients.add_recipients(&public).expect("recipient");
    let error = open(&store(), &recipients)
        .await
        .expect_err("could not be read");
    assert!(matches!(error, SealError::NoIdentity), "{error}");
    let mut pinned = key_file(1);
    pinned.pin = Some(root);
    let new = store();
    let error = open(&new, &pinned).await.expect_err("not there");
    assert!(
        matches!(error, SealError::Missing { key } if key == root),
        "{error}"
    );
    assert_eq!(new.list(Kind::DataKey).await.expect("list"), []);
    let mut pinned = KeyConfig::new();
    pinned.pin = Some(root);
    open(&plain, &pinned)
        .await
        .expect_err("a pin alone wants a sealed store as well");

    sealed.delete(&Key::DataKey(root)).await.expect("deleted");
    let error = open(&sealed, &key_file(1))
        .await
        .expect_err("no key object");
    assert!(
        matches!(error, SealError::Missing { key } if key == root),
        "{error}"
    );
}

#[tokio::test]
async fn many_that_come_first_agree() {
    let store = store();
    let config = key_file(1);
    let opened: Vec<_> = (0..8).map(|_| open(&store, &config)).collect();
    let mut names = Vec::new();
    for ring in futures(opened).await {
        names.push(ring.expect("opened").current().id());
    }
    names.dedup();
    assert_eq!(names.len(), 1);
    let keys = store.list(Kind::DataKey).await.expect("list");
    assert_eq!(keys.len(), 1, "those who came too late clean up");

    // One that was killed before it could: its key is there, and is not used.
    let late = DataKey::generate().expect("random");
    put(
        &store,
        &KeyObject::wrap(&late, 9000, &config, None).expect("wraps"),
    )
    .await;
    let ring = open(&store, &config).await.expect("opened");
    assert_eq!(ring.current().id(), names[0]);
    assert_eq!(ring.foreign().collect::<Vec<_>>(), [late.id()]);
}

/// All of them at once, each a step at a time.
async fn futures<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pinned: Vec<_> = futures
        .into_iter()
        .map(|future| (Box::pin(future), None))
        .collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, output) in &mut pinned {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    pinned
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

#[tokio::test]
async fn the_newest_key_is_for_new_checkpoints() {
    let (store, config) = (store(), key_file(1));
    let mut ring = open(&store, &config).await.expect("made");
    let first = ring.current().id();
    let second = ring.rotate(&store, &config, 5000).await.expect("rotated");
    assert_eq!(ring.current().id(), Some(second));
    // A clock that is late changes nothing.
    let third = ring.rotate(&store, &config, 10).await.expect("rotated");
    let again = open(&store, &config).await.expect("opened");
    for ring in [&ring, &again] {
        assert_eq!(ring.current().id(), Some(third));
        for id in [first, Some(second), Some(third)] {
            assert_eq!(ring.get(id).expect("there").id(), id);
        }
        let names: Vec<_> = [first, Some(second), Some(third)]
            .map(|id| ring.get(id).expect("there").block_id(b"x"))
            .to_vec();
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        assert!(matches!(ring.get(None), Err(SealError::NotSealed)));
        let unknown = DataKey::generate().expect("random").id();
        let error = ring.get(Some(unknown)).expect_err("unknown");
        assert!(matches!(error, SealError::Missing { key } if key == unknown));
    }
    let mut plain = open(&Memory::new(&StoreName::default()), &KeyConfig::new())
        .await
        .expect("made");
    let error = plain
        .rotate(&store, &config, 1)
        .await
        .expect_err("not sealed");
    assert!(matches!(error, SealError::StoreNotSealed));
    let error = plain.get(first).expect_err("sealed");
    assert!(matches!(error, SealError::Unexpected { .. }));
}

/// Recipients are public, so whoever can write to the store can wrap a key that they know for them.
#[tokio::test]
async fn a_planted_key_is_never_used() {
    let secret = identity();
    let config = with_identities(&[&secret]);
    let store = store();
    let ring = open(&store, &config).await.expect("made");
    let good = ring.current().id();
    let mut known = Vec::new();
    for endorser in [None, Some(2), Some(3)] {
        // By nobody; by itself or by another planted one: not by the store's, whose key is not known.
        let planted = DataKey::from_bytes(&mut [2; 32]);
        let by = endorser.map(|byte| Keys::sealed(&DataKey::from_bytes(&mut [byte; 32])));
        let planted = KeyObject::wrap(&planted, 1 << 40, &config, by.as_ref()).expect("wraps");
        let key = Key::DataKey(planted.id());
        let object = planted.encode();
        store
            .put(&key, object, Existing::Replace, &[])
            .await
            .expect("put");
        let other = DataKey::from_bytes(&mut [3; 32]);
        let by = Keys::sealed(&DataKey::from_bytes(&mut [2; 32]));
        let other = KeyObject::wrap(&other, 1 << 41, &config, Some(&by)).expect("wraps");
        let key = Key::DataKey(other.id());
        store
            .put(&key, other.encode(), Existing::Replace, &[])
            .await
            .expect("put");

        let ring = open(&store, &config).await.expect("opened");
        assert_eq!(ring.current().id(), good);
        known = ring.foreign().collect();
        assert_eq!(known.len(), 2);
        for id in &known {
            let error = ring.get(Some(*id)).expect_err("planted");
            assert!(
                matches!(error, SealError::Foreign { key } if key == *id),
                "{error}"
            );
        }
    }
    // Not even where the store itself was made over.
    let description = StoreDescription {
        salt: rocferry_store::seal::Salt([0; 32]),
        root_key: Some(known[0]),
        created_ms: 0,
    };
    let keys = Keys::unsealed(&rocferry_store::seal::Salt([0; 32]));
    let object = rocferry_store::envelope::SmallObject::encode(&description, &Key::Store, &keys);
    store
        .put(&Key::Store, object, Existing::Replace, &[])
        .await
        .expect("put");
    let mut pinned = with_identities(&[&secret]);
    pinned.pin = good;
    let ring = open(&store, &pinned).await.expect("opened");
    assert_eq!(ring.current().id(), good);
    // Without that the description decides: this is what pinning is for.
    let ring = open(&store, &config).await.expect("opened");
    let current = ring.current().id().expect("sealed");
    assert!(known.contains(&current), "{current} was not planted");
}

#[tokio::test]
async fn recipients_change() {
    let (old, new) = (identity(), identity());
    let (old_config, new_config) = (with_identities(&[&old]), with_identities(&[&new]));
    let store = store();
    let mut ring = open(&store, &old_config).await.expect("made");
    let first = ring.current().id().expect("sealed");
    // Only for the new ones: whoever has the old identity goes on with the old key, and can know it.
    let second = ring
        .rotate(&store, &new_config, 2000)
        .await
        .expect("rotated");
    let stale = open(&store, &old_config).await.expect("opened");
    assert_eq!(stale.current().id(), Some(first));
    assert_eq!(stale.locked().collect::<Vec<_>>(), [second]);
    let error = stale.get(Some(second)).expect_err("locked");
    assert!(
        matches!(error, SealError::WrongKey { key, .. } if key == second),
        "{error}"
    );
    let error = open(&store, &new_config)
        .await
        .expect_err("the first one is not for them");
    assert!(
        matches!(error, SealError::WrongKey { key, .. } if key == first),
        "{error}"
    );
    // Who needs nothing older takes the new one as the first.
    let mut pinned = with_identities(&[&new]);
    pinned.pin = Some(second);
    assert_eq!(
        open(&store, &pinned).await.expect("opened").current().id(),
        Some(second)
    );
    // Everybody else wraps the older ones as well.
    let both = with_identities(&[&old, &new]);
    assert_eq!(
        Keyring::rewrap(&store, &both, &new_config)
            .await
            .expect("rewrapped"),
        2
    );
    let ring = open(&store, &new_config).await.expect("opened");
    assert_eq!(ring.current().id(), Some(second));
    assert_eq!(ring.get(Some(first)).expect("there").id(), Some(first));
    open(&store, &old_config)
        .await
        .expect_err("not for them any more");
}

#[tokio::test]
async fn a_damaged_key_or_description_is_named() {
    let (store, config) = (store(), key_file(1));
    let ring = open(&store, &config).await.expect("made");
    let root = Key::DataKey(ring.current().id().expect("sealed"));
    for key in [Key::Store, root] {
        let good = store.get(&key, None, 1 << 20).await.expect("there");
        for place in 0..good.len() {
            let mut changed = good.to_vec();
            changed[place] ^= 0x10;
            for bytes in [changed, good[..place].to_vec()] {
                store
                    .put(&key, bytes.into(), Existing::Replace, &[])
                    .await
                    .expect("put");
                let error = open(&store, &config).await.expect_err("damaged");
                assert!(
                    matches!(&error, SealError::Object { key: named, .. } if *named == key),
                    "{error}"
                );
            }
        }
        store
            .put(&key, good, Existing::Replace, &[])
            .await
            .expect("put");
    }
    open(&store, &config).await.expect("as it was");
}
