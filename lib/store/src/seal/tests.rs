//! Pieces, keys and key objects. What is done with a backend is in `tests/keys.rs` of the crate.

use age::secrecy::ExposeSecret;
use proptest::prelude::*;
use rocferry_image::manifest::{BlockId, CheckpointId, DataKeyId, PackId};

use super::*;
use crate::Key;

fn data_key(byte: u8) -> DataKey {
    DataKey::from_bytes(&mut [byte; 32])
}

fn sealed(byte: u8) -> Keys {
    Keys::sealed(&data_key(byte))
}

fn open(keys: &Keys, piece: Piece<'_>, stored: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut buffer = Vec::new();
    keys.open(piece, stored, &mut buffer).map(<[u8]>::to_vec)
}

fn identity() -> (String, String) {
    let identity = age::x25519::Identity::generate();
    let secret = identity.to_string().expose_secret().to_owned();
    (secret, identity.to_public().to_string())
}

fn with_identity(secret: &str) -> KeyConfig {
    let mut config = KeyConfig::new();
    config.add_identities(secret).expect("identity");
    config
}

fn with_file(byte: u8) -> KeyConfig {
    let mut config = KeyConfig::new();
    config.add_key(WrappingKey::from_file(&[byte; 32]).expect("32 bytes"));
    config
}

/// What is in a store must be found again: these never change.
#[test]
fn the_derivations_stay() {
    let keys = sealed(7);
    assert_eq!(data_key(7).id().to_string(), "016b1be04f663ae3");
    assert_eq!(keys.id(), Some(data_key(7).id()));
    let start = |id: BlockId| id.to_string()[..16].to_owned();
    assert_eq!(start(keys.block_id(b"abc")), "0ab31dc486750ae1");
    let unsealed = Keys::unsealed(&Salt([7; 32]));
    assert_eq!(start(unsealed.block_id(b"abc")), "9f89c17d17693168");
    let check = keys.check(&[b"a", b"bc"]).to_hex();
    assert_eq!(&check[..16], "2b9c57b8f610a1dd");
    assert_eq!(
        WrappingKey::from_file(&[7; 32])
            .expect("key")
            .id()
            .to_string(),
        "key-file:039a0fcf875d7c40"
    );
    // Sealed with this code once.
    let piece = Piece::Block(BlockId([1; 32]));
    let old = hex(
        "d0a8a4cf7baf0c4dd5a372943d8e0a98c35542c4d34bbd5f438c541b6fa4aa27c102f477c2aab05c1d14c3",
    );
    assert_eq!(open(&keys, piece, &old).expect("opens"), b"abc");
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| {
        let value = (digit as char).to_digit(16).expect("digit");
        u8::try_from(value).expect("below 16")
    };
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

#[test]
fn equal_content_does_not_look_equal_under_other_keys() {
    let content = b"the same";
    let names = [
        sealed(1).block_id(content),
        sealed(2).block_id(content),
        Keys::unsealed(&Salt([1; 32])).block_id(content),
        Keys::unsealed(&Salt([2; 32])).block_id(content),
        BlockId(*blake3::hash(content).as_bytes()),
    ];
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{index}");
    }
    let piece = Piece::Block(names[0]);
    let twice = [(); 2].map(|()| sealed(1).seal(piece, content).expect("seals"));
    assert_ne!(twice[0], twice[1]);
}

#[test]
fn pieces_open_as_what_they_are_alone() {
    let id: CheckpointId = "20261130t014415-0123456789ab".parse().expect("id");
    let other: CheckpointId = "20261130t014415-0123456789ac".parse().expect("id");
    let pieces = [
        Piece::Block(BlockId([1; 32])),
        Piece::Block(BlockId([2; 32])),
        Piece::Trailer(PackId([1; 16])),
        Piece::Trailer(PackId([2; 16])),
        Piece::Manifest(&id),
        Piece::Manifest(&other),
        Piece::DataKey(DataKeyId([1; 8])),
        Piece::DataKey(DataKeyId([2; 8])),
    ];
    let keys = sealed(1);
    for made in pieces {
        let stored = keys.seal(made, b"content").expect("seals");
        assert_eq!(stored.len(), 7 + 40);
        for taken in pieces {
            match open(&keys, taken, &stored) {
                Ok(content) => assert_eq!((taken, &*content), (made, &b"content"[..])),
                Err(SealError::Piece { .. }) => assert_ne!(taken, made),
                Err(error) => panic!("{error}"),
            }
        }
        open(&sealed(2), made, &stored).expect_err("another key");
    }
}

proptest! {
    #[test]
    fn every_change_of_a_piece_is_noticed(
        content in prop::collection::vec(any::<u8>(), 0..200),
        place in any::<prop::sample::Index>(),
        change in 1..=255u8,
    ) {
        let (keys, piece) = (sealed(3), Piece::Trailer(PackId([9; 16])));
        let stored = keys.seal(piece, &content).expect("seals");
        prop_assert_eq!(open(&keys, piece, &stored).expect("opens"), content);
        let mut changed = stored.clone();
        changed[place.index(stored.len())] ^= change;
        open(&keys, piece, &changed).expect_err("changed");
        for length in 0..stored.len() {
            open(&keys, piece, &stored[..length]).expect_err("cut");
        }
        open(&keys, piece, &[&stored[..], &[0]].concat()).expect_err("longer");
    }
}

#[test]
fn secrets_are_not_printed() {
    let (secret, public) = identity();
    let mut config = with_identity(&secret);
    config.add_key(WrappingKey::from_file(&[0xab; 32]).expect("key"));
    let key = data_key(0xab);
    let printed = format!(
        "{config:?} {key:?} {:?} {:?}",
        Keys::sealed(&key),
        config.key_files()
    );
    assert!(printed.contains(&public), "{printed}");
    for shown in [&secret[16..], "abababab", "171, 171"] {
        assert!(!printed.contains(shown), "{printed}");
    }
    // Nor in an error that a damaged secret causes.
    let error = KeyConfig::new()
        .add_identities(&secret[..70])
        .expect_err("cut");
    assert_eq!(
        error.to_string(),
        "Line 1 of the identities is none: invalid Bech32 encoding"
    );
}

#[test]
fn keys_are_read_from_files() {
    let (secret, public) = identity();
    let (other, other_public) = identity();
    let file = format!("# created: today\n# public key: {public}\n{secret}\r\n\n  {other}\n");
    let config = with_identity(&file);
    let recipients: Vec<_> = config
        .recipients()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(recipients, [public.clone(), other_public]);
    let mut config = KeyConfig::new();
    let error = config
        .add_recipients(&format!("{public}\nage1abc"))
        .expect_err("second");
    assert!(
        matches!(error, SealError::Recipient { line: 2, .. }),
        "{error}"
    );
    config
        .add_recipients(&secret)
        .expect_err("a secret is no recipient");

    let raw = WrappingKey::from_file(&[0xa5; 32]).expect("raw").id();
    for text in [
        "a5".repeat(32),
        "A5".repeat(32) + "\n",
        format!("  {}\r\n", "a5".repeat(32)),
    ] {
        assert_eq!(
            WrappingKey::from_file(text.as_bytes()).expect("hex").id(),
            raw
        );
    }
    for wrong in [
        &b""[..],
        &[1; 31],
        &[1; 33],
        &[b'g'; 64],
        &[b'a'; 63],
        &[b'a'; 66],
    ] {
        let error = WrappingKey::from_file(wrong).expect_err("wrong");
        assert!(matches!(error, SealError::KeyFile { bytes } if bytes == wrong.len()));
    }
}

#[test]
fn a_data_key_is_for_those_it_is_wrapped_for() {
    let (first, first_public) = identity();
    let (second, second_public) = identity();
    let mut config = with_file(5);
    config
        .add_recipients(&format!("{first_public}\n{second_public}"))
        .expect("recipients");
    let key = data_key(1);
    let object = KeyObject::wrap(&key, 1234, &config, None).expect("wraps");
    let bytes = object.encode();
    let object = KeyObject::decode(key.id(), &bytes).expect("reads");
    assert_eq!((object.id(), object.created_ms()), (key.id(), 1234));
    for config in [with_identity(&first), with_identity(&second), with_file(5)] {
        assert_eq!(object.unwrap(&config).expect("opens").bytes(), key.bytes());
    }
    let file = WrappingKey::from_file(&[5; 32]).expect("key").id();
    let names = [
        first_public.clone(),
        second_public.clone(),
        file.to_string(),
    ];
    assert_eq!(object.wrapped_for(), names);

    let (third, third_public) = identity();
    let error = object.unwrap(&with_identity(&third)).expect_err("third");
    let wrapped_for = names.join(", ");
    assert_eq!(
        error.to_string(),
        format!(
            "Data key {} is wrapped for {wrapped_for}; given is {third_public}",
            key.id()
        )
    );
    object.unwrap(&with_file(6)).expect_err("another file");
    let mut recipients = KeyConfig::new();
    recipients.add_recipients(&first_public).expect("recipient");
    for nothing in [KeyConfig::new(), recipients] {
        let error = object.unwrap(&nothing).expect_err("nothing to unwrap with");
        assert!(matches!(error, SealError::NoKey { .. }), "{error}");
    }
    let error = KeyObject::wrap(&key, 0, &KeyConfig::new(), None).expect_err("nobody");
    assert!(matches!(error, SealError::NoRecipients));
}

#[test]
fn every_change_of_a_key_object_is_noticed() {
    let (secret, _) = identity();
    let mut config = with_identity(&secret);
    config.add_key(WrappingKey::from_file(&[5; 32]).expect("key"));
    let key = data_key(1);
    let bytes = KeyObject::wrap(&key, 1234, &config, Some(&sealed(9)))
        .expect("wraps")
        .encode();
    KeyObject::decode(key.id(), &bytes).expect("as it is");
    for place in 0..bytes.len() {
        for bit in [1, 0x80] {
            let mut changed = bytes.to_vec();
            changed[place] ^= bit;
            KeyObject::decode(key.id(), &changed).expect_err("changed");
        }
        KeyObject::decode(key.id(), &bytes[..place]).expect_err("cut");
    }
    KeyObject::decode(key.id(), &[&bytes[..], &[0]].concat()).expect_err("longer");
    KeyObject::decode(data_key(2).id(), &bytes).expect_err("another name");

    // Whoever makes the check value right again: it is still not the key of that name.
    let keys = crate::envelope::public_keys();
    let body = crate::envelope::open_object(&Key::DataKey(key.id()), &keys, &bytes).expect("body");
    let name = data_key(2).id();
    let renamed = crate::envelope::close_object(&Key::DataKey(name), &keys, body);
    let renamed = KeyObject::decode(name, &renamed).expect("reads");
    for config in [with_identity(&secret), with_file(5)] {
        let error = renamed.unwrap(&config).expect_err("another key");
        assert!(matches!(error, SealError::Damaged { .. }), "{error}");
    }
    for place in 0..body.len() {
        let mut body = body.to_vec();
        body[place] ^= 1;
        let object = crate::envelope::close_object(&Key::DataKey(key.id()), &keys, &body);
        if let Ok(object) = KeyObject::decode(key.id(), &object) {
            if let Ok(opened) = object.open(&with_file(5)) {
                assert_eq!((opened.key.bytes(), opened.created_ms), (key.bytes(), 1234));
            }
            if let Ok(opened) = object.open(&with_identity(&secret)) {
                assert_eq!((opened.key.bytes(), opened.created_ms), (key.bytes(), 1234));
            }
        }
    }
}

#[test]
fn new_keys_and_names_differ() {
    let [a, b] = [(); 2].map(|()| DataKey::generate().expect("random"));
    assert_ne!(a.bytes(), b.bytes());
    assert_ne!(a.id(), b.id());
    assert_ne!(
        new_pack_id().expect("random"),
        new_pack_id().expect("random")
    );
    assert_ne!(
        new_lease_id().expect("random"),
        new_lease_id().expect("random")
    );
    let mut bytes = [9; 32];
    let _ = DataKey::from_bytes(&mut bytes);
    assert_eq!(bytes, [0; 32], "the caller's copy is wiped");
}
