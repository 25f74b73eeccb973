//! Manifests in their objects.

use rocferry_image::manifest::{BLOCK_SIZE, Binding, BlockRef, Blocks, Content};
use rocferry_store::envelope::{
    EnvelopeError, ExpectedBinding, ManifestObject, PublicKey, Signer, TrustPolicy,
};
use rocferry_store::seal::{Keyring, Keys, Salt};

use crate::samples::{bound_to, id, keyring, leaks, manifest, noise, pack, text};

/// Key pair of RFC 8410, 10.3 and 10.1.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

fn rings() -> [Keyring; 2] {
    [keyring(None), keyring(Some(1))]
}

fn signer(byte: u8) -> Signer {
    Signer::from_seed(&[byte; 32])
}

fn any() -> TrustPolicy {
    TrustPolicy::default()
}

fn signed_by(signers: &[u8]) -> TrustPolicy {
    TrustPolicy {
        signers: signers
            .iter()
            .map(|byte| signer(*byte).public_key())
            .collect(),
        ..any()
    }
}

fn sample(number: u32, ring: &Keyring) -> rocferry_image::manifest::Manifest {
    let pack = pack(ring, &[noise(1, 100), text(1, 500)]);
    manifest(number, ring, &pack.finished.index)
}

fn cause(error: &EnvelopeError) -> String {
    let source = std::error::Error::source(error).expect("a reason");
    source.to_string()
}

#[test]
fn what_is_written_is_read() {
    for ring in rings() {
        for by in [None, Some(signer(1))] {
            let manifest = sample(1, &ring);
            let object = ManifestObject::encode(&manifest, ring.current(), by.as_ref());
            let object = object.expect("encodes");
            let read = ManifestObject::decode(&id(1), &object, &ring, &any()).expect("reads");
            assert_eq!(read.manifest, manifest);
            assert_eq!(read.signer, by.map(|by| by.public_key()));
        }
    }
}

#[test]
fn every_change_is_noticed() {
    for ring in rings() {
        for by in [None, Some(signer(1))] {
            let manifest = sample(1, &ring);
            let object = ManifestObject::encode(&manifest, ring.current(), by.as_ref());
            let object = object.expect("encodes");
            let refused = |bytes: &[u8], place: usize| {
                let read = ManifestObject::decode(&id(1), bytes, &ring, &any());
                read.expect_err(&format!("byte {place} of {}", object.len()));
            };
            for place in 0..object.len() {
                for bit in [0x01, 0x40] {
                    let mut changed = object.to_vec();
                    changed[place] ^= bit;
                    refused(&changed, place);
                }
                refused(&object[..place], place);
            }
            refused(&[&object[..], &[0]].concat(), object.len());
        }
    }
}

#[test]
fn a_secret_is_not_found_in_a_sealed_manifest() {
    let [plain, sealed] = rings().map(|ring| {
        // Noise is too little to compress: the label of a span is in the clear.
        let pack = pack(&ring, &[noise(1, 100)]);
        let mut manifest = manifest(1, &ring, &pack.finished.index);
        manifest.source.node = Some("correct horse battery staple".to_owned());
        ManifestObject::encode(&manifest, ring.current(), Some(&signer(1))).expect("encodes")
    });
    assert!(leaks(&plain), "the test would see it");
    assert!(!leaks(&sealed));
}

#[test]
fn nothing_stands_in_for_another_manifest() {
    for ring in rings() {
        let object = ManifestObject::encode(&sample(1, &ring), ring.current(), None);
        let object = object.expect("encodes");
        let error = ManifestObject::decode(&id(2), &object, &ring, &any()).expect_err("renamed");
        assert_eq!(
            cause(&error),
            format!("It cannot be understood: it is that of {}", id(1))
        );
        // With the other name in its header as well.
        let mut renamed = object.to_vec();
        renamed[12..40].copy_from_slice(id(2).as_str().as_bytes());
        ManifestObject::decode(&id(2), &renamed, &ring, &any()).expect_err("renamed");
        // Nor is one of another store taken.
        for other in [Keyring::unsealed(&Salt([8; 32])), keyring(Some(1))] {
            ManifestObject::decode(&id(1), &object, &other, &any()).expect_err("another store");
        }
    }
    let [plain, sealed] = rings();
    let error = ManifestObject::encode(&sample(1, &sealed), plain.current(), None);
    error.expect_err("made with other keys than its packs");
}

/// Whoever has the key of the store may still not put one manifest in the place of another.
#[test]
fn a_payload_belongs_to_its_header() {
    let ring = keyring(None);
    let salt = crate::samples::SALT;
    let key = blake3::derive_key("rocferry 2026-11-30 unsealed check values", &salt);
    let object = ManifestObject::encode(&sample(1, &ring), ring.current(), None);
    let mut object = object.expect("encodes").to_vec();
    object[12..40].copy_from_slice(id(2).as_str().as_bytes());
    let end = object.len() - 32;
    let check = blake3::keyed_hash(&key, &object[..end]);
    object[end..].copy_from_slice(check.as_bytes());
    let error = ManifestObject::decode(&id(2), &object, &ring, &any()).expect_err("renamed");
    let expected = format!(
        "It cannot be understood: it holds the manifest of {}",
        id(1)
    );
    assert_eq!(cause(&error), expected);
}

#[test]
fn signatures_are_wanted_or_not() {
    let ring = keyring(Some(1));
    let manifest = sample(1, &ring);
    let by = |signer: Option<&Signer>| {
        let object = ManifestObject::encode(&manifest, ring.current(), signer);
        object.expect("encodes")
    };
    let read = |object: &[u8], policy: &TrustPolicy| {
        let read = ManifestObject::decode(&id(1), object, &ring, policy);
        read.map(|_| ()).map_err(|error| {
            assert!(matches!(error, EnvelopeError::Untrusted { .. }), "{error}");
            cause(&error)
        })
    };
    let (unsigned, signed) = (by(None), by(Some(&signer(1))));
    let [one, two] = [1, 2].map(|byte| signer(byte).public_key());
    assert_eq!(read(&signed, &signed_by(&[1])), Ok(()));
    assert_eq!(read(&signed, &signed_by(&[2, 1])), Ok(()));
    assert_eq!(
        read(&signed, &signed_by(&[2])),
        Err(format!(
            "It is signed by {one}; a signature by {two} is expected"
        ))
    );
    assert_eq!(
        read(&unsigned, &signed_by(&[1, 2])),
        Err(format!(
            "It is not signed; a signature by {one} or {two} is expected"
        ))
    );
    let lenient = |signers: &[u8]| TrustPolicy {
        unsigned: true,
        ..signed_by(signers)
    };
    assert_eq!(read(&unsigned, &lenient(&[1])), Ok(()));
    read(&signed, &lenient(&[2])).expect_err("a stranger is worse than nobody");
}

/// A signature is of all that is before it, and it cannot be taken off or put on another object.
#[test]
fn signatures_stay_where_they_are() {
    let ring = keyring(None);
    let key = blake3::derive_key(
        "rocferry 2026-11-30 unsealed check values",
        &crate::samples::SALT,
    );
    let object = |number| {
        let object =
            ManifestObject::encode(&sample(number, &ring), ring.current(), Some(&signer(1)));
        object.expect("encodes").to_vec()
    };
    let [a, b] = [object(1), object(2)];
    let mixed = [&b[..b.len() - 96], &a[a.len() - 96..]].concat();
    let error = ManifestObject::decode(&id(2), &mixed, &ring, &any()).expect_err("of another");
    assert!(matches!(error, EnvelopeError::Signature { .. }), "{error}");
    // In a store that is not sealed anybody can make the check value. What is then missing is the signature.
    let mut stripped = a[..a.len() - 96].to_vec();
    stripped[9] = 0;
    let end = stripped.len() - 32;
    let check = blake3::keyed_hash(&key, &stripped[..end]);
    stripped[end..].copy_from_slice(check.as_bytes());
    ManifestObject::decode(&id(1), &stripped, &ring, &any()).expect("nobody asked for one");
    ManifestObject::decode(&id(1), &stripped, &ring, &signed_by(&[1])).expect_err("not signed");
    // Signed again by somebody else: that is whose it is then.
    let mut other = a.clone();
    let place = other.len() - 96;
    other[place..place + 32].copy_from_slice(&signer(2).public_key().0);
    ManifestObject::decode(&id(1), &other, &ring, &any()).expect_err("not by them");
}

#[test]
fn bindings_are_checked() {
    let ring = keyring(None);
    let read = |binding: Binding, expected: &ExpectedBinding| {
        let mut manifest = sample(1, &ring);
        manifest.binding = binding;
        let object = ManifestObject::encode(&manifest, ring.current(), None).expect("encodes");
        let policy = TrustPolicy {
            binding: Some(expected.clone()),
            ..any()
        };
        let read = ManifestObject::decode(&id(1), &object, &ring, &policy);
        read.map(|_| ()).map_err(|error| cause(&error))
    };
    let own = ExpectedBinding {
        namespace: Some("team-a".to_owned()),
        namespace_uid: Some("2f1c7f0a".to_owned()),
        pod: Some("trainer-0".to_owned()),
        container: Some("main".to_owned()),
        free: false,
        foreign: false,
    };
    assert_eq!(read(bound_to("trainer-0"), &own), Ok(()));
    assert_eq!(
        read(bound_to("trainer-1"), &own),
        Err("It is bound to pod trainer-1; one for pod trainer-0 is expected".to_owned())
    );
    let any_pod = ExpectedBinding {
        pod: None,
        ..own.clone()
    };
    assert_eq!(read(bound_to("trainer-1"), &any_pod), Ok(()));
    // The namespace was deleted and made again.
    let again = ExpectedBinding {
        namespace_uid: Some("9".to_owned()),
        ..own.clone()
    };
    let expected = "It is bound to namespace UID 2f1c7f0a; one for namespace UID 9 is expected";
    assert_eq!(
        read(bound_to("trainer-0"), &again),
        Err(expected.to_owned())
    );
    let expected = "It is bound to nobody; one for namespace team-a, namespace UID 2f1c7f0a, \
                    pod trainer-0, container main is expected";
    assert_eq!(read(Binding::Free, &own), Err(expected.to_owned()));
    let free = ExpectedBinding {
        free: true,
        ..own.clone()
    };
    assert_eq!(read(Binding::Free, &free), Ok(()));
    read(bound_to("trainer-1"), &free).expect_err("not free, but for somebody else");
    let foreign = ExpectedBinding {
        foreign: true,
        ..own
    };
    assert_eq!(read(bound_to("trainer-1"), &foreign), Ok(()));
    read(Binding::Free, &foreign).expect_err("for nobody");
}

#[test]
fn signing_keys_are_read() {
    let signer = Signer::from_pem(PRIVATE).expect("PEM");
    let public: PublicKey = PUBLIC.parse().expect("PEM");
    assert_eq!(signer.public_key(), public);
    let hex = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
    assert_eq!(public.to_string(), hex);
    assert_eq!(hex.parse(), Ok(public));
    assert_eq!(format!(" {}\n", hex.to_uppercase()).parse(), Ok(public));
    for wrong in ["", PRIVATE, &hex[1..], "not a key"] {
        wrong.parse::<PublicKey>().expect_err("no public key");
    }
    for wrong in ["", PUBLIC, hex] {
        Signer::from_pem(wrong).expect_err("no private key");
    }
    assert!(!format!("{signer:?}").contains("d4ee72db"));
}

/// Much zero memory is a small object, and reading it takes little memory.
#[test]
fn sizes_are_bounded() {
    let ring = keyring(None);
    let mut manifest = sample(1, &ring);
    let Content::Regular(spans) = &mut manifest.files[0].content else {
        panic!("regular file");
    };
    // 2 TiB.
    spans[0].size = u64::from(BLOCK_SIZE) << 19;
    spans[0].blocks = Blocks::zero(1 << 19);
    let object = ManifestObject::encode(&manifest, ring.current(), None).expect("encodes");
    assert!(object.len() < 2000, "{}", object.len());
    let read = ManifestObject::decode(&id(1), &object, &ring, &any()).expect("reads");
    assert_eq!(read.manifest, manifest);

    // A header that claims more than its payload can hold.
    let key = blake3::derive_key(
        "rocferry 2026-11-30 unsealed check values",
        &crate::samples::SALT,
    );
    for (claim, what) in [(1u64 << 27, "a message of"), (100, "instead of")] {
        let mut object = object.to_vec();
        object[48..56].copy_from_slice(&claim.to_le_bytes());
        let end = object.len() - 32;
        let check = blake3::keyed_hash(&key, &object[..end]);
        object[end..].copy_from_slice(check.as_bytes());
        let error = ManifestObject::decode(&id(1), &object, &ring, &any()).expect_err("claim");
        assert!(cause(&error).contains(what), "{}", cause(&error));
    }
}

#[test]
fn a_later_version_is_named() {
    let ring = keyring(None);
    let object = ManifestObject::encode(&sample(1, &ring), ring.current(), None);
    let mut object = object.expect("encodes").to_vec();
    object[7] = b'2';
    let error = ManifestObject::decode(&id(1), &object, &ring, &any()).expect_err("later");
    assert_eq!(cause(&error), "It has format version 2, 1 is understood");
    object[..8].copy_from_slice(b"PK\x03\x04abcd");
    let error = ManifestObject::decode(&id(1), &object, &ring, &any()).expect_err("a zip");
    assert_eq!(cause(&error), "It is no manifest");
    assert_eq!(
        error.to_string(),
        format!("The manifest of {} cannot be read", id(1))
    );
}

#[test]
fn equal_manifests_of_two_keys_share_nothing() {
    let [a, b] = [keyring(Some(1)), keyring(Some(1))];
    let names = |keys: &Keys| (keys.block_id(b"x"), keys.id());
    assert_ne!(names(a.current()), names(b.current()));
    let blocks = |ring: &Keyring| {
        let manifest = sample(1, ring);
        let ids: Vec<_> = manifest.blocks().map(|(_, placed)| *placed.block).collect();
        ids
    };
    for (a, b) in blocks(&a).into_iter().zip(blocks(&b)) {
        match (a, b) {
            (BlockRef::Stored { id: a, .. }, BlockRef::Stored { id: b, .. }) => assert_ne!(a, b),
            other => panic!("{other:?}"),
        }
    }
}
