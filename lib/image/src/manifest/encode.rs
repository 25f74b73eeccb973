//! Writing a manifest.

use prost::Message;
use prost::encoding::message;

use super::wire::{self, FILES};
use super::{
    BLOCK_SIZE, Binding, BlockRef, Content, Encoding, FileEntry, MAX_MANIFEST, Manifest,
    ManifestError, Source, Span, VERSION,
};

impl Manifest {
    /// The protobuf message, neither compressed nor sealed nor signed.
    ///
    /// # Errors
    /// What [`Manifest::validate`] refuses, and [`ManifestError::TooLarge`]: nothing is written that could
    /// not be read.
    pub fn encode(&self) -> Result<Vec<u8>, ManifestError> {
        self.validate()?;
        let mut bytes = wire::Manifest {
            version: Some(VERSION),
            block_size: Some(BLOCK_SIZE),
            id: Some(self.id.to_string()),
            created_ms: Some(self.created_ms),
            parent: self.parent.as_ref().map(ToString::to_string),
            binding: Some(binding(&self.binding)),
            source: Some(source(&self.source)),
            data_key: self.data_key.map(|id| id.0.to_vec()),
            packs: Some(self.packs.iter().flat_map(|pack| pack.0).collect()),
        }
        .encode_to_vec();
        for entry in &self.files {
            message::encode(FILES, &file(entry), &mut bytes);
        }
        let length = bytes.len() as u64;
        if length > MAX_MANIFEST {
            return Err(ManifestError::TooLarge {
                bytes: length,
                limit: MAX_MANIFEST,
            });
        }
        Ok(bytes)
    }
}

fn binding(binding: &Binding) -> wire::Binding {
    match binding {
        Binding::Free => wire::Binding {
            kind: Some(1),
            ..wire::Binding::default()
        },
        Binding::Pod {
            namespace,
            namespace_uid,
            pod,
            container,
        } => wire::Binding {
            kind: Some(2),
            namespace: Some(namespace.clone()),
            namespace_uid: Some(namespace_uid.clone()),
            pod: Some(pod.clone()),
            container: Some(container.clone()),
        },
    }
}

fn source(source: &Source) -> wire::Source {
    let mounts = source.mounts.iter().map(|mount| wire::Mount {
        destination: Some(mount.destination.clone()),
        source: Some(mount.source.clone()),
        kind: Some(mount.kind.clone()),
    });
    let annotations = source
        .annotations
        .iter()
        .map(|(name, value)| wire::Annotation {
            name: Some(name.clone()),
            value: Some(value.clone()),
        });
    wire::Source {
        runtime: source.runtime.clone(),
        container_id: source.container_id.clone(),
        image: source.image.clone(),
        image_digest: source.image_digest.clone(),
        mounts: mounts.collect(),
        topology: source.topology.clone(),
        cpu_features: source.cpu_features.clone(),
        criu_version: source.criu_version.clone(),
        kernel_version: source.kernel_version.clone(),
        node: source.node.clone(),
        annotations: annotations.collect(),
    }
}

fn file(entry: &FileEntry) -> wire::FileEntry {
    let (kind, target, spans) = match &entry.content {
        Content::Directory => (1, None, Vec::new()),
        Content::Symlink(target) => (2, Some(target.clone()), Vec::new()),
        Content::Regular(spans) => (3, None, spans.iter().map(span).collect()),
    };
    wire::FileEntry {
        path: Some(entry.path.clone()),
        mode: Some(entry.mode),
        uid: Some(entry.uid),
        gid: Some(entry.gid),
        modified_ms: Some(entry.modified_ms),
        kind: Some(kind),
        target,
        spans,
    }
}

fn span(span: &Span) -> wire::Span {
    let count = span.blocks.stored().len();
    let mut message = wire::Span {
        size: Some(span.size),
        label: span.label.clone(),
        zero_blocks: zero_blocks(span),
        packs: Vec::with_capacity(count),
        offsets: Vec::with_capacity(count),
        stored: Vec::with_capacity(count),
        ..wire::Span::default()
    };
    let (mut ids, mut encodings) = (Vec::with_capacity(32 * count), Vec::with_capacity(count));
    for block in span.blocks.stored() {
        if let BlockRef::Stored {
            id,
            pack,
            offset,
            stored,
            encoding,
        } = block
        {
            ids.extend_from_slice(&id.0);
            message.packs.push(*pack);
            message.offsets.push(*offset);
            message.stored.push(*stored);
            encodings.push(match encoding {
                Encoding::Raw => 0,
                Encoding::Zstd => 1,
            });
        }
    }
    if count > 0 {
        message.ids = Some(ids);
        message.encodings = Some(encodings);
    }
    message
}

fn zero_blocks(span: &Span) -> Option<Vec<u8>> {
    if span.blocks.zeros() == 0 {
        return None;
    }
    let mut bits = vec![0u8; span.blocks.len().div_ceil(8)];
    for (index, block) in span.blocks.iter().enumerate() {
        if let (BlockRef::Zero, Some(byte)) = (block, bits.get_mut(index / 8)) {
            *byte |= 1 << (index % 8);
        }
    }
    Some(bits)
}
