//! Objects of a store but packs: manifests in their envelopes, data keys, leases, pins, the store itself.

use rocferry_image::manifest::{CheckpointId, DataKeyId, Manifest, PackId};
use rocferry_store::envelope::{
    Condemned, Lease, LeaseKind, ManifestObject, Pin, Signer, SmallObject, StoreDescription,
    TrustPolicy,
};
use rocferry_store::seal::{DataKey, KeyConfig, KeyObject, Keys, Salt, WrappingKey};
use rocferry_store::{Key, LeaseId};

use crate::checks::{check_value, keyring, public_check_value};
use crate::{Seed, manifest};

/// Of 32 equal bytes.
const IDENTITY: &str = "AGE-SECRET-KEY-1ZYG3ZYG3ZYG3ZYG3ZYG3ZYG3ZYG3ZYG3ZYG3ZYG3ZYG3ZYG3ZYGSUZRZYL";

/// Reads an object as it is, and once more with a right check value, which in a store without sealing anybody
/// can make; true if it is one then. What is accepted can be written, and is the same after that.
///
/// # Panics
/// A promise is broken.
pub fn run(data: &[u8]) -> bool {
    if data.starts_with(b"RFOB") {
        let Some(key) = data.get(4).and_then(|kind| small_key(*kind)) else {
            return false;
        };
        read_small(&key, data);
        with_check(&key, data).is_some_and(|fixed| read_small(&key, &fixed))
    } else {
        read_manifest(data);
        with_manifest_check(data).is_some_and(|fixed| read_manifest(&fixed))
    }
}

fn read_manifest(data: &[u8]) -> bool {
    let keyring = keyring();
    let policy = TrustPolicy::default();
    let read = ManifestObject::decode(&manifest::id(), data, &keyring, &policy);
    let Ok(read) = read else {
        return false;
    };
    manifest::check(&read.manifest);
    let written = ManifestObject::encode(&read.manifest, keyring.current(), None);
    let written = written.expect("accepted, then not valid");
    let again = ManifestObject::decode(&manifest::id(), &written, &keyring, &policy);
    assert_eq!(again.expect("written by us").manifest, read.manifest);
    true
}

/// Check values stand before a signature, if there is one by what the header says.
fn with_manifest_check(data: &[u8]) -> Option<Vec<u8>> {
    let mut fixed = data.to_vec();
    let signature = if data.get(9) == Some(&1) { 96 } else { 0 };
    let end = data.len().checked_sub(signature + 32)?;
    let check = check_value(&[&data[..end]]);
    fixed[end..end + 32].copy_from_slice(&check);
    Some(fixed)
}

/// A name for an object of that kind.
fn small_key(kind: u8) -> Option<Key> {
    Some(match kind {
        1 => Key::Store,
        2 => Key::DataKey(data_key().id()),
        3 => Key::Lease(LeaseId([1; 16])),
        4 => Key::Pin(manifest::id()),
        5 => Key::Condemned(PackId([1; 16])),
        _ => return None,
    })
}

fn data_key() -> DataKey {
    DataKey::from_bytes(&mut [1; 32])
}

fn with_check(key: &Key, data: &[u8]) -> Option<Vec<u8>> {
    let mut fixed = data.to_vec();
    let (content, check) = fixed.split_last_chunk_mut::<32>()?;
    let name = key.to_string();
    let parts = [name.as_bytes(), &[0], &*content];
    *check = match key {
        Key::Store | Key::DataKey(_) => public_check_value(&parts),
        _ => check_value(&parts),
    };
    Some(fixed)
}

fn read_small(key: &Key, data: &[u8]) -> bool {
    let keyring = keyring();
    let own = keyring.current();
    match key {
        Key::Store => read_one::<StoreDescription>(key, &public(), data),
        Key::DataKey(id) => read_key(*id, data),
        Key::Lease(_) => read_one::<Lease>(key, own, data),
        Key::Pin(_) => read_one::<Pin>(key, own, data),
        Key::Condemned(_) => read_one::<Condemned>(key, own, data),
        Key::Pack(_) | Key::Index(_) | Key::Checkpoint(_) => false,
    }
}

/// The keys of what must be readable before any data key is.
fn public() -> Keys {
    Keys::unsealed(&Salt([0; 32]))
}

fn read_one<T: SmallObject + PartialEq + std::fmt::Debug>(
    key: &Key,
    keys: &Keys,
    data: &[u8],
) -> bool {
    let Ok(value) = T::decode(key, keys, data) else {
        return false;
    };
    let written = value.encode(key, keys);
    assert_eq!(T::decode(key, keys, &written).as_ref(), Ok(&value));
    true
}

fn read_key(id: DataKeyId, data: &[u8]) -> bool {
    let Ok(object) = KeyObject::decode(id, data) else {
        return false;
    };
    for config in [with_identity(), with_file()] {
        // Whatever stands there: no other key comes out.
        if let Ok(key) = object.unwrap(&config) {
            assert_eq!(key.id(), id);
        }
    }
    assert_eq!(
        KeyObject::decode(id, &object.encode()).as_ref(),
        Ok(&object)
    );
    true
}

fn with_identity() -> KeyConfig {
    let mut config = KeyConfig::new();
    config.add_identities(IDENTITY).expect("an identity");
    config
}

fn with_file() -> KeyConfig {
    let mut config = KeyConfig::new();
    config.add_key(WrappingKey::from_file(&[5; 32]).expect("32 bytes"));
    config
}

/// One of each.
///
/// # Panics
/// Never: they are valid.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let keyring = keyring();
    let keys = keyring.current();
    let signer = Signer::from_seed(&[3; 32]);
    let sealed = |manifest: &Manifest, signer: Option<&Signer>| {
        let object = ManifestObject::encode(manifest, keys, signer);
        object.expect("valid").to_vec()
    };
    let manifest = manifest::sample(None);
    let checkpoints: Vec<CheckpointId> = vec![manifest.id.clone()];
    let lease = Lease {
        kind: LeaseKind::Upload,
        started_ms: 1,
        expires_ms: 2,
        holder: "node-1".to_owned(),
        packs: vec![PackId([1; 16])],
        checkpoints,
    };
    let pin = Pin {
        created_ms: 1,
        reason: "why".to_owned(),
    };
    let description = StoreDescription {
        salt: Salt([9; 32]),
        root_key: Some(DataKeyId([1; 8])),
        created_ms: 1,
    };
    let small = |kind| small_key(kind).expect("a small object");
    let wrapped = |config: &KeyConfig| {
        let object = KeyObject::wrap(&data_key(), 1, config, Some(&Keys::sealed(&data_key())));
        object.expect("recipients").encode().to_vec()
    };
    let seeds = [
        ("manifest", sealed(&manifest, None)),
        ("signed", sealed(&manifest, Some(&signer))),
        ("store", description.encode(&Key::Store, &public()).to_vec()),
        ("key-by-age", wrapped(&with_identity())),
        ("key-by-file", wrapped(&with_file())),
        ("lease", lease.encode(&small(3), keys).to_vec()),
        ("pin", pin.encode(&small(4), keys).to_vec()),
        (
            "condemned",
            Condemned { created_ms: 1 }.encode(&small(5), keys).to_vec(),
        ),
    ];
    let seed = |(name, content): (&str, Vec<u8>)| Seed {
        name: name.to_owned(),
        content,
    };
    seeds.into_iter().map(seed).collect()
}

/// What is hard to guess.
#[must_use]
pub fn words() -> Vec<Vec<u8>> {
    let words = [
        "RFCKPT01",
        "RFOB",
        "age-encryption.org/v1\n",
        "-> X25519 ",
        "\n---",
        "-> scrypt ",
    ];
    words.map(|word| word.as_bytes().to_vec()).to_vec()
}
