//! What a checkpoint consists of, for people and scripts.

use rocferry_image::manifest::{
    Binding, BlockRef, CheckpointId, Content, DataKeyId, FileEntry, PackId, Source, Totals,
};
use serde::Serialize;

use crate::envelope::{ManifestObject, PublicKey};
use crate::serial::{display, display_all, display_if};

/// A checkpoint. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Its name.
    #[serde(serialize_with = "display")]
    pub id: CheckpointId,
    /// When it was finished: milliseconds since 1970.
    pub created_ms: u64,
    /// The checkpoint before it.
    #[serde(serialize_with = "display_if")]
    pub parent: Option<CheckpointId>,
    /// Whom it may be restored for; `None`: anybody.
    pub binding: Option<BoundTo>,
    /// The data key that seals it.
    #[serde(serialize_with = "display_if")]
    pub data_key: Option<DataKeyId>,
    /// Whose signature it carries.
    #[serde(serialize_with = "display_if")]
    pub signer: Option<PublicKey>,
    /// What was checkpointed.
    pub source: InspectedSource,
    /// Its sizes.
    pub totals: InspectedTotals,
    /// Its packs.
    #[serde(serialize_with = "display_all")]
    pub packs: Vec<PackId>,
    /// Its files, directories and links.
    pub files: Vec<InspectedFile>,
}

/// The container that a checkpoint is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BoundTo {
    /// Name of the namespace.
    pub namespace: String,
    /// UID of the namespace.
    pub namespace_uid: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
}

/// What was checkpointed, as far as it is known. The fields are those of [`Source`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "They are the fields of Source, which has their documentation"
)]
pub struct InspectedSource {
    pub runtime: Option<String>,
    pub container_id: Option<String>,
    pub image: Option<String>,
    pub image_digest: Option<String>,
    pub mounts: Vec<InspectedMount>,
    /// As JSON, or as the text that it is if it is none.
    pub topology: Option<serde_json::Value>,
    pub cpu_features: Vec<String>,
    pub criu_version: Option<String>,
    pub kernel_version: Option<String>,
    pub node: Option<String>,
    pub annotations: Vec<(String, String)>,
}

/// A mount of the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InspectedMount {
    /// Where it is in the container.
    pub destination: String,
    /// What is mounted there.
    pub source: String,
    /// Kind of file system.
    pub kind: String,
}

/// Sizes of a checkpoint, see [`Totals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "They are the fields of Totals, which has their documentation"
)]
pub struct InspectedTotals {
    pub files: u64,
    pub plain: u64,
    pub zero: u64,
    pub blocks: u64,
    pub stored_blocks: u64,
    pub stored: u64,
}

/// A file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InspectedFile {
    /// Its path below the checkpoint's directory.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last change, milliseconds since 1970.
    pub modified_ms: u64,
    /// Its size; of anything but a file 0.
    pub size: u64,
    /// What it is.
    pub kind: InspectedKind,
    /// Where a link points.
    pub target: Option<String>,
    /// The parts of a file, one after the other.
    pub spans: Vec<InspectedSpan>,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InspectedKind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A regular file.
    File,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InspectedSpan {
    /// Its first byte in the file.
    pub position: u64,
    /// Its size.
    pub size: u64,
    /// What it is to whoever wrote it.
    pub label: Option<String>,
    /// Number of its blocks.
    pub blocks: u64,
    /// Of these, all zeros.
    pub zero_blocks: u64,
    /// Bytes of the others in their packs; one that occurs twice counts twice.
    pub stored: u64,
}

impl Inspection {
    /// Of this manifest. Takes time and memory in proportion to the number of files.
    #[must_use]
    pub fn of(object: &ManifestObject) -> Self {
        let manifest = &object.manifest;
        Self {
            id: manifest.id.clone(),
            created_ms: manifest.created_ms,
            parent: manifest.parent.clone(),
            binding: BoundTo::of(&manifest.binding),
            data_key: manifest.data_key,
            signer: object.signer,
            source: InspectedSource::of(&manifest.source),
            totals: InspectedTotals::of(manifest.totals()),
            packs: manifest.packs.clone(),
            files: manifest.files.iter().map(InspectedFile::of).collect(),
        }
    }
}

impl BoundTo {
    /// `None`: anybody.
    pub(crate) fn of(binding: &Binding) -> Option<Self> {
        match binding.clone() {
            Binding::Free => None,
            Binding::Pod {
                namespace,
                namespace_uid,
                pod,
                container,
            } => Some(Self {
                namespace,
                namespace_uid,
                pod,
                container,
            }),
        }
    }
}

impl InspectedSource {
    fn of(source: &Source) -> Self {
        let source = source.clone();
        let json = |text: String| serde_json::from_str(&text).unwrap_or(text.into());
        let mounts = source.mounts.into_iter().map(|mount| InspectedMount {
            destination: mount.destination,
            source: mount.source,
            kind: mount.kind,
        });
        Self {
            runtime: source.runtime,
            container_id: source.container_id,
            image: source.image,
            image_digest: source.image_digest,
            mounts: mounts.collect(),
            topology: source.topology.map(json),
            cpu_features: source.cpu_features,
            criu_version: source.criu_version,
            kernel_version: source.kernel_version,
            node: source.node,
            annotations: source.annotations,
        }
    }
}

impl InspectedTotals {
    pub(crate) const fn of(totals: Totals) -> Self {
        Self {
            files: totals.files,
            plain: totals.plain,
            zero: totals.zero,
            blocks: totals.blocks,
            stored_blocks: totals.stored_blocks,
            stored: totals.stored,
        }
    }
}

impl InspectedFile {
    fn of(file: &FileEntry) -> Self {
        let (kind, target) = match &file.content {
            Content::Directory => (InspectedKind::Directory, None),
            Content::Symlink(target) => (InspectedKind::Symlink, Some(target.clone())),
            Content::Regular(_) => (InspectedKind::File, None),
        };
        let mut position = 0u64;
        let spans = file.spans().iter().map(|span| {
            let stored = span.blocks.stored().iter().map(|block| match block {
                BlockRef::Zero => 0,
                BlockRef::Stored { stored, .. } => u64::from(*stored),
            });
            let inspected = InspectedSpan {
                position,
                size: span.size,
                label: span.label.clone(),
                blocks: span.blocks.len() as u64,
                zero_blocks: span.blocks.zeros() as u64,
                stored: stored.sum(),
            };
            position = position.saturating_add(span.size);
            inspected
        });
        Self {
            path: file.path.clone(),
            mode: file.mode,
            uid: file.uid,
            gid: file.gid,
            modified_ms: file.modified_ms,
            size: file.size(),
            kind,
            target,
            spans: spans.collect(),
        }
    }
}
