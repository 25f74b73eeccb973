//! Leases, pins and condemnations.

use bytes::Bytes;
use rocferry_image::manifest::PackId;
use rocferry_store::envelope::{
    Condemned, Lease, LeaseKind, ObjectError, Pin, SmallObject, data_key_of,
};
use rocferry_store::seal::{Keyring, Salt};
use rocferry_store::{Key, LeaseId};

use crate::samples::{id, keyring};

fn lease() -> Lease {
    Lease {
        kind: LeaseKind::Upload,
        started_ms: 1000,
        expires_ms: 2000,
        holder: "node-1".to_owned(),
        packs: vec![PackId([1; 16]), PackId([2; 16])],
        checkpoints: vec![id(1), id(2)],
    }
}

fn check<T: SmallObject + Clone + PartialEq + std::fmt::Debug>(
    ring: &Keyring,
    value: &T,
    key: &Key,
    other: &Key,
) {
    let keys = ring.current();
    let object = value.encode(key, keys);
    assert_eq!(T::decode(key, keys, &object).as_ref(), Ok(value));
    assert_eq!(data_key_of(key, &object), Ok(keys.id()));
    let refused = |key: &Key, bytes: &[u8]| {
        let outcome = T::decode(key, keys, bytes);
        outcome.expect_err("must be noticed")
    };
    for place in 0..object.len() {
        for bit in [1, 0x80] {
            let mut changed = object.to_vec();
            changed[place] ^= bit;
            refused(key, &changed);
        }
        refused(key, &object[..place]);
    }
    refused(key, &[&object[..], &[0]].concat());
    assert_eq!(refused(other, &object), ObjectError::Check);
}

#[test]
fn every_change_is_noticed() {
    for ring in [keyring(None), keyring(Some(1))] {
        let [a, b] = [1, 2].map(|byte| Key::Lease(LeaseId([byte; 16])));
        check(&ring, &lease(), &a, &b);
        let restore = Lease {
            kind: LeaseKind::Restore,
            packs: Vec::new(),
            ..lease()
        };
        check(&ring, &restore, &a, &b);
        let pin = Pin {
            created_ms: 5,
            reason: "for the audit".to_owned(),
        };
        check(&ring, &pin, &Key::Pin(id(1)), &Key::Pin(id(2)));
        let [a, b] = [1, 2].map(|byte| Key::Condemned(PackId([byte; 16])));
        check(&ring, &Condemned { created_ms: 7 }, &a, &b);
    }
}

/// In a sealed store nobody without its key can make one, and none of another store is taken.
#[test]
fn objects_of_others_are_refused() {
    let key = Key::Pin(id(1));
    let pin = Pin {
        created_ms: 5,
        reason: String::new(),
    };
    let other = Keyring::unsealed(&Salt([8; 32]));
    let rings = [keyring(None), other, keyring(Some(1)), keyring(Some(1))];
    for (number, ring) in rings.iter().enumerate() {
        let object = pin.encode(&key, ring.current());
        for (other, reader) in rings.iter().enumerate() {
            let read = Pin::decode(&key, reader.current(), &object);
            assert_eq!(read.is_ok(), number == other, "{number} {other} {read:?}");
        }
    }
    let sealed = pin.encode(&key, rings[2].current());
    let error = Pin::decode(&key, rings[0].current(), &sealed).expect_err("sealed");
    let data_key = rings[2].current().id().expect("sealed");
    assert_eq!(
        error.to_string(),
        format!("It is protected by data key {data_key}, not by no data key")
    );
}

#[test]
fn kinds_are_told_apart() {
    let ring = keyring(None);
    let key = Key::Pin(id(1));
    let pin = Pin {
        created_ms: 5,
        reason: String::new(),
    };
    let object = pin.encode(&key, ring.current());
    let condemned = Key::Condemned(PackId([1; 16]));
    let error = Condemned::decode(&condemned, ring.current(), &object).expect_err("a pin");
    assert_eq!(error.to_string(), "It is no condemnation");
    let mut later = object.to_vec();
    later[5] = 2;
    let error = Pin::decode(&key, ring.current(), &later).expect_err("later");
    assert_eq!(
        error.to_string(),
        "It has format version 2, 1 is understood"
    );
    let long = Bytes::from(vec![0; 5 << 20]);
    Pin::decode(&key, ring.current(), &long).expect_err("too long");
}

#[test]
fn a_lease_may_name_many_packs() {
    let ring = keyring(Some(1));
    let key = Key::Lease(LeaseId([1; 16]));
    // Those of 16 TiB.
    let packs = (0..131_072u32).map(|number| {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        PackId(id)
    });
    let lease = Lease {
        packs: packs.collect(),
        ..lease()
    };
    let object = lease.encode(&key, ring.current());
    assert_eq!(Lease::decode(&key, ring.current(), &object), Ok(lease));
}
