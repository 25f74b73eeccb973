//! Who made an archive, and what it is of.

use rocferry_image::manifest::{Mount, Source};
use serde::Deserialize;

use super::json::{self, List, Text, Texts};
use super::{CONFIG_DUMP, Origin, Refusal, SPEC_DUMP, STATUS_DUMP};

/// Key in `config.dump` by which rocferry marks its checkpoints; the value is `rocferry`.
pub const CHECKPOINTED_BY: &str = "checkpointedBy";
/// Annotation of an imported checkpoint: who made the archive.
pub const ORIGIN: &str = "rocferry.dev/archive-of";
/// Annotation of an imported checkpoint: name of the container.
pub const CONTAINER_NAME: &str = "rocferry.dev/container-name";
/// Annotation of an imported checkpoint: id of the container's image where it ran.
pub const IMAGE_ID: &str = "rocferry.dev/image-id";
/// Annotation of an imported checkpoint: when the container was made, as the engine wrote it.
pub const CREATED_AT: &str = "rocferry.dev/created-at";
/// Annotation of an imported checkpoint: when it was checkpointed, as the engine wrote it.
pub const CHECKPOINTED_AT: &str = "rocferry.dev/checkpointed-at";

/// Annotation by which Podman and CRI-O mark containers as theirs.
pub(super) const MANAGER: &str = "io.container.manager";
/// Annotation in which CRI-O keeps the annotations that the kubelet gave it.
pub(super) const CRIO_ANNOTATIONS: &str = "io.kubernetes.cri-o.Annotations";
/// Annotation that containerd gives each container of a pod.
const CONTAINERD_TYPE: &str = "io.kubernetes.cri.container-type";

/// What is taken from `config.dump`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Config {
    pub(super) id: Text,
    pub(super) name: Text,
    rootfs_image: Text,
    pub(super) rootfs_image_name: Text,
    pub(super) rootfs_image_ref: Text,
    /// Podman's.
    #[serde(rename = "rootfsImageID")]
    pub(super) rootfs_image_id: Text,
    runtime: Text,
    created_time: Text,
    checkpointed_time: Text,
    checkpointed_by: Text,
}

/// What is taken from `spec.dump`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    annotations: Texts,
    mounts: List<SpecMount>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SpecMount {
    destination: Text<4096>,
    source: Text<4096>,
    #[serde(rename = "type")]
    kind: Text,
}

/// What is taken from `status.dump`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(alias = "imageId")]
    image_id: Text,
    #[serde(alias = "imageRef")]
    image_ref: Text,
}

/// What is known of an archive up to now.
#[derive(Debug, Default)]
pub(super) struct Facts {
    config: Option<Config>,
    spec: Option<Spec>,
    status: Option<Status>,
}

impl Facts {
    /// Takes one of the JSON files.
    pub(super) fn take(&mut self, path: &str, data: &[u8]) -> Result<(), Refusal> {
        match path {
            CONFIG_DUMP => self.config = Some(json::parse_object(data)?),
            SPEC_DUMP => self.spec = Some(json::parse_object(data)?),
            STATUS_DUMP => self.status = Some(json::parse_object(data)?),
            _ => {}
        }
        Ok(())
    }

    fn origin(&self) -> Origin {
        let by = self
            .config
            .as_ref()
            .and_then(|config| config.checkpointed_by.0.as_deref());
        if by == Some("rocferry") {
            return Origin::Rocferry;
        }
        let annotations = self.spec.as_ref().map(|spec| &spec.annotations.0);
        let annotation = |name| {
            annotations
                .and_then(|texts| texts.get(name))
                .map(String::as_str)
        };
        match annotation(MANAGER) {
            Some("libpod") => Origin::Podman,
            Some("cri-o") => Origin::CriO,
            _ if annotation(CRIO_ANNOTATIONS).is_some() => Origin::CriO,
            _ if annotation(CONTAINERD_TYPE).is_some() || self.status.is_some() => {
                Origin::Containerd
            }
            _ => Origin::Unknown,
        }
    }

    /// What the archive says, in the form of a manifest.
    pub(super) fn finish(self) -> (Origin, Source) {
        let origin = self.origin();
        let config = self.config.unwrap_or_default();
        let spec = self.spec.unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let mut annotations = spec.annotations.0;
        annotations.retain(|name, value| {
            (1..=1024).contains(&name.len()) && !name.contains('\0') && !value.contains('\0')
        });
        let references = [
            &config.rootfs_image_ref,
            &config.rootfs_image_name,
            &status.image_ref,
        ];
        let digest = references
            .iter()
            .find_map(|text| digest(text.0.as_deref()?));
        let ids = [
            &config.rootfs_image_id,
            &config.rootfs_image_ref,
            &status.image_id,
            &config.rootfs_image,
        ];
        let image_id = ids.iter().find_map(|text| image_id(text.0.as_deref()?));
        let image_id = image_id.map(str::to_owned);
        let image_digest = digest.map(str::to_owned);
        let own = [
            (ORIGIN, Some(origin.to_string())),
            (CONTAINER_NAME, config.name.0),
            (IMAGE_ID, image_id),
            (CREATED_AT, config.created_time.0),
            (CHECKPOINTED_AT, config.checkpointed_time.0),
        ];
        // There is room for ours whatever they have.
        while annotations.len() > 4096 - own.len() {
            annotations.pop_last();
        }
        for (name, value) in own {
            annotations.remove(name);
            if let Some(value) = value {
                annotations.insert(name.to_owned(), value);
            }
        }
        let mount = |mount: SpecMount| {
            Some(Mount {
                destination: mount.destination.0?,
                source: mount.source.0.unwrap_or_default(),
                kind: mount.kind.0.unwrap_or_default(),
            })
        };
        let source = Source {
            runtime: config.runtime.0,
            container_id: config.id.0,
            image: config.rootfs_image_name.0.or(config.rootfs_image.0),
            image_digest,
            mounts: spec.mounts.0.into_iter().filter_map(mount).collect(),
            annotations: annotations.into_iter().collect(),
            ..Source::default()
        };
        (origin, source)
    }
}

/// The digest in `NAME@sha256:HEX`.
pub(super) fn digest(reference: &str) -> Option<&str> {
    let (name, digest) = reference.split_once('@')?;
    let hex = digest.strip_prefix("sha256:")?;
    (!name.is_empty() && is_sha256(hex)).then_some(digest)
}

/// The digits of an image's id, which is that of its configuration.
pub(super) fn image_id(text: &str) -> Option<&str> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    is_sha256(hex).then_some(hex)
}

/// Whether these are the digits of a SHA-256.
pub(super) fn is_sha256(hex: &str) -> bool {
    hex.len() == 64
        && hex
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
