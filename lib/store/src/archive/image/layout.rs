//! The files of an image layout.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(super) const LAYOUT: &str = "oci-layout";
pub(super) const INDEX: &str = "index.json";
/// Where blobs are.
pub(super) const BLOBS: &str = "blobs/sha256/";
/// Beginning of a digest.
pub(super) const SHA256: &str = "sha256:";

pub(super) const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
/// Layers that can be read.
pub(super) const LAYER_TYPES: [&str; 3] = [
    LAYER_TYPE,
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
];
/// Annotation of an index's entry: name of the image.
pub(super) const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// The same for containerd, which wants the whole name.
pub(super) const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// The file `oci-layout`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Layout {
    pub(super) image_layout_version: String,
}

/// A reference to a blob.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// The file `index.json`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub(super) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<String>,
    pub(super) manifests: Vec<Descriptor>,
}

/// The manifest of an image.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageManifest {
    pub(super) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<String>,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// The configuration of an image, as far as one without programs has one.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct ImageConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<String>,
    pub(super) architecture: String,
    pub(super) os: String,
    #[serde(default)]
    pub(super) config: BTreeMap<String, String>,
    pub(super) rootfs: RootFs,
}

/// The layers of an image, before compression.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct RootFs {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) diff_ids: Vec<String>,
}
