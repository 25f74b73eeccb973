//! The registry's manifest of an object.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageManifest};
use sha2::{Digest, Sha256};

use super::failure::Refused;
use crate::backend::Meta;
use crate::{Key, Kind};

/// Content of the blob that stands for nothing, by the image specification.
pub(super) const NOTHING: &[u8] = b"{}";
const NOTHING_TYPE: &str = "application/vnd.oci.empty.v1+json";
const NOTHING_DIGEST: &str =
    "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

/// What registries take.
pub(super) const MOST_BYTES: usize = 4 << 20;

const KEY: &str = "dev.rocferry.key";
/// Seconds since 1970, by the clock of whoever wrote it.
const WRITTEN: &str = "dev.rocferry.written";
const WRITE: &str = "dev.rocferry.write";

/// A blob of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) digest: String,
    pub(super) size: u64,
    media_type: String,
}

impl Blob {
    fn descriptor(&self) -> Result<OciDescriptor, Refused> {
        Ok(OciDescriptor {
            media_type: self.media_type.clone(),
            digest: self.digest.clone(),
            size: i64::try_from(self.size).map_err(|_| Refused::Size(self.size))?,
            urls: None,
            annotations: None,
            artifact_type: None,
        })
    }

    /// None for a digest or size that nothing has, and for another way of hashing.
    fn read(descriptor: &OciDescriptor) -> Option<Self> {
        let digits = descriptor.digest.strip_prefix("sha256:")?;
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() != 64 || !digits.bytes().all(hexadecimal) {
            return None;
        }
        Some(Self {
            digest: descriptor.digest.clone(),
            size: u64::try_from(descriptor.size).ok()?,
            media_type: descriptor.media_type.clone(),
        })
    }

    /// Bytes of the object, which is not the blob where there are none.
    pub(super) fn content_size(&self) -> u64 {
        if self.media_type == NOTHING_TYPE {
            0
        } else {
            self.size
        }
    }
}

/// The blob that stands for nothing.
pub(super) fn nothing() -> Blob {
    Blob {
        digest: NOTHING_DIGEST.to_owned(),
        size: NOTHING.len() as u64,
        media_type: NOTHING_TYPE.to_owned(),
    }
}

/// The blob of an object. Not every registry takes one without content.
pub(super) fn content(key: &Key, digest: String, size: u64) -> Blob {
    if size == 0 {
        return nothing();
    }
    Blob {
        digest,
        size,
        media_type: media_type(key.kind()),
    }
}

fn media_type(kind: Kind) -> String {
    format!("application/vnd.rocferry.{}.v1", kind.dir())
}

/// The object's tag.
pub(super) fn tag(key: &Key) -> String {
    key.to_string().replace('/', ".")
}

/// The key of a tag, if it is of this kind.
pub(super) fn key_of(tag: &str, kind: Kind) -> Option<Key> {
    let (dir, id) = tag.split_once('.').unwrap_or((tag, ""));
    let key = Key::from_parts(kind, id)?;
    // Not `store.` either.
    (dir == kind.dir() && self::tag(&key) == tag).then_some(key)
}

/// What an object is about.
pub(super) fn subject(key: &Key) -> Option<Key> {
    match key {
        Key::Index(pack) => Some(Key::Pack(*pack)),
        Key::Pin(checkpoint) => Some(Key::Checkpoint(checkpoint.clone())),
        _ => None,
    }
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Of the manifest.
    pub(super) digest: String,
    size: u64,
    pub(super) content: Blob,
    written: Option<SystemTime>,
}

impl Found {
    pub(super) fn meta(&self) -> Meta {
        Meta {
            size: self.content.content_size(),
            modified: self.written,
        }
    }

    /// From a manifest's bytes; `None` if it is not that of this object.
    pub(super) fn read(body: &[u8], key: &Key) -> Option<Self> {
        let manifest: OciImageManifest = serde_json::from_slice(body).ok()?;
        let annotations = manifest.annotations.unwrap_or_default();
        if manifest.artifact_type != Some(media_type(key.kind()))
            || annotations.get(KEY) != Some(&key.to_string())
        {
            return None;
        }
        let content = match key.kind() {
            Kind::Checkpoint => &manifest.config,
            _ => manifest.layers.first()?,
        };
        let written = annotations.get(WRITTEN);
        let seconds = written.and_then(|text| text.parse().ok());
        Some(Self {
            digest: digest_of(body),
            size: body.len() as u64,
            content: Blob::read(content)?,
            written: seconds
                .and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))),
        })
    }
}

/// The manifest of an object, and what will be known of it.
pub(super) fn write(
    key: &Key,
    content: Blob,
    needs: &[Blob],
    subject: Option<&Found>,
) -> Result<(Bytes, Found), Refused> {
    let nothing = nothing().descriptor()?;
    let (config, mut layers) = match key.kind() {
        Kind::Checkpoint => {
            let layers = needs.iter().map(Blob::descriptor);
            (content.descriptor()?, layers.collect::<Result<_, _>>()?)
        }
        _ => (nothing.clone(), vec![content.descriptor()?]),
    };
    // One at least, for the sake of older registries.
    if layers.is_empty() {
        layers.push(nothing);
    }
    let now = SystemTime::now();
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let annotations = [
        (KEY, key.to_string()),
        (WRITTEN, now.to_string()),
        (WRITE, format!("{:016x}", fastrand::u64(..))),
    ];
    let subject = subject.map(|subject| OciDescriptor {
        media_type: OCI_IMAGE_MEDIA_TYPE.to_owned(),
        digest: subject.digest.clone(),
        // A manifest has at most MOST_BYTES.
        size: i64::try_from(subject.size).unwrap_or(i64::MAX),
        urls: None,
        annotations: None,
        artifact_type: None,
    });
    let manifest = OciImageManifest {
        media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
        config,
        layers,
        subject,
        artifact_type: Some(media_type(key.kind())),
        annotations: Some(
            annotations
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
        ),
        ..OciImageManifest::default()
    };
    let body = serde_json::to_vec(&manifest).map_err(|_| Refused::Foreign)?;
    if body.len() > MOST_BYTES {
        return Err(Refused::Packs(needs.len()));
    }
    let found = Found {
        digest: digest_of(&body),
        size: body.len() as u64,
        content,
        written: UNIX_EPOCH.checked_add(Duration::from_secs(now)),
    };
    Ok((body.into(), found))
}

/// `sha256:…`
pub(super) fn digest_of(bytes: &[u8]) -> String {
    named(Sha256::digest(bytes).as_slice())
}

/// `sha256:…` of a hash.
pub(super) fn named(hash: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in hash {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocferry_image::manifest::PackId;

    fn pack(n: u8) -> Key {
        Key::Pack(PackId([n; 16]))
    }

    fn checkpoint() -> Key {
        Key::Checkpoint("20261130t014415-0123456789ab".parse().expect("id"))
    }

    fn blob(key: &Key, text: &str) -> Blob {
        content(key, digest_of(text.as_bytes()), text.len() as u64)
    }

    #[test]
    fn nothing_is_what_the_specification_says() {
        assert_eq!(digest_of(NOTHING), NOTHING_DIGEST);
    }

    #[test]
    fn tags_are_keys() {
        for key in [pack(7), checkpoint(), Key::Store] {
            let tag = tag(&key);
            assert!(!tag.contains('/') && tag.len() <= 128, "{tag}");
            assert_eq!(key_of(&tag, key.kind()), Some(key));
        }
        for other in [
            "latest",
            "store.",
            "packs",
            "packs.x",
            "index.0707",
            "sha256-07",
        ] {
            for kind in Kind::ALL {
                assert_eq!(key_of(other, kind), None, "{other}");
            }
        }
    }

    #[test]
    fn a_pack_is_a_layer() {
        let (body, found) = write(&pack(1), blob(&pack(1), "blocks"), &[], None).expect("write");
        assert_eq!(Found::read(&body, &pack(1)), Some(found.clone()));
        assert_eq!(found.meta().size, 6);
        assert_eq!(Found::read(&body, &pack(2)), None, "another's");
        let json: serde_json::Value = serde_json::from_slice(&body).expect("json");
        assert_eq!(json["config"]["digest"], NOTHING_DIGEST);
        assert_eq!(
            json["layers"][0]["mediaType"],
            "application/vnd.rocferry.packs.v1"
        );
        let (again, _) = write(&pack(1), blob(&pack(1), "blocks"), &[], None).expect("write");
        assert_ne!(body, again, "each write is another manifest");
    }

    #[test]
    fn a_checkpoint_names_its_packs() {
        let needs = vec![blob(&pack(1), "one"), blob(&pack(2), "two")];
        let content = blob(&checkpoint(), "manifest");
        let (body, found) = write(&checkpoint(), content, &needs, None).expect("write");
        assert_eq!(Found::read(&body, &checkpoint()), Some(found.clone()));
        assert_eq!(found.meta().size, 8);
        let json: serde_json::Value = serde_json::from_slice(&body).expect("json");
        assert_eq!(
            json["config"]["mediaType"],
            "application/vnd.rocferry.checkpoints.v1"
        );
        assert_eq!(json["layers"][1]["digest"], needs[1].digest);
    }

    #[test]
    fn an_empty_object_is_nothing() {
        for key in [checkpoint(), pack(1)] {
            let empty = content(&key, digest_of(b""), 0);
            let (body, found) = write(&key, empty, &[], None).expect("write");
            assert_eq!(found.meta().size, 0);
            assert_eq!(Found::read(&body, &key), Some(found));
        }
    }

    #[test]
    fn an_index_has_a_subject() {
        let Key::Pack(id) = pack(1) else {
            panic!("no pack")
        };
        let index = Key::Index(id);
        assert_eq!(subject(&index), Some(pack(1)));
        let (_, about) = write(&pack(1), blob(&pack(1), "blocks"), &[], None).expect("write");
        let (body, _) = write(&index, blob(&index, "list"), &[], Some(&about)).expect("write");
        let json: serde_json::Value = serde_json::from_slice(&body).expect("json");
        assert_eq!(json["subject"]["digest"], about.digest);
        assert_eq!(json["subject"]["size"], about.size);
    }

    #[test]
    fn manifests_of_others_are_nobodys() {
        let (body, _) = write(&pack(1), blob(&pack(1), "blocks"), &[], None).expect("write");
        let text = String::from_utf8(body.to_vec()).expect("text");
        for wrong in [
            "",
            "null",
            "[]",
            &text.replace("vnd.rocferry.packs.v1\"", "vnd.other\""),
            &text.replace("dev.rocferry.key", "dev.other.key"),
            &text.replace("sha256:", "sha512:"),
            &text.replace("\"size\":6", "\"size\":-6"),
            &text[..text.len() - 1],
        ] {
            assert_eq!(Found::read(wrong.as_bytes(), &pack(1)), None, "{wrong}");
        }
    }

    #[test]
    fn more_packs_than_a_manifest_holds_are_refused() {
        let needs = vec![blob(&pack(1), "one"); 40_000];
        let content = blob(&checkpoint(), "manifest");
        let error = write(&checkpoint(), content, &needs, None).expect_err("too many");
        assert!(matches!(error, Refused::Packs(40_000)), "{error:?}");
    }
}
