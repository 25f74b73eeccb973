//! Reading a manifest.
//!
//! Fields are walked over, each entry is made small before the next one, and what is made is hardly larger
//! than what it is made from.

use super::columns::blocks;
use super::wire::{self, FILES};
use super::{
    BLOCK_SIZE, Binding, CheckpointId, Content, DataKeyId, FileEntry, MAX_FILES, MAX_MANIFEST,
    Manifest, ManifestError, Mount, PackId, Source, Span, VERSION,
};
use crate::FormatError;
use crate::walk::{Field, decode, fields, malformed, required};

const MANIFEST: &str = "manifest";
const BINDING: &str = "manifest binding";
const SOURCE: &str = "manifest source";
const FILE: &str = "manifest file";
const SPAN: &str = "manifest span";

impl Manifest {
    /// Reads what [`Manifest::encode`] wrote. Fields that are not known are skipped.
    ///
    /// # Errors
    /// [`ManifestError`]: nothing is returned that [`Manifest::validate`] refuses.
    pub fn decode(content: &[u8]) -> Result<Self, ManifestError> {
        let bytes = content.len() as u64;
        if bytes > MAX_MANIFEST {
            let limit = MAX_MANIFEST;
            return Err(ManifestError::TooLarge { bytes, limit });
        }
        // First of all, since another version's fields may mean anything.
        check_version(content)?;
        let manifest = manifest(content)?;
        manifest.validate()?;
        Ok(manifest)
    }
}

fn check_version(content: &[u8]) -> Result<(), ManifestError> {
    let mut version = None;
    walk(MANIFEST, content, |number, field| match number {
        1 => once(&mut version, field.u64(MANIFEST)?, MANIFEST, "version"),
        _ => Ok(()),
    })?;
    let value = required(MANIFEST, None, "version", version)?;
    match u32::try_from(value) {
        Ok(VERSION) => Ok(()),
        Ok(version) if version > VERSION => Err(ManifestError::Format(FormatError::Version {
            message: MANIFEST,
            version,
            supported: VERSION,
        })),
        _ => Err(invalid(MANIFEST, "version", value)),
    }
}

fn manifest(content: &[u8]) -> Result<Manifest, ManifestError> {
    let (mut block_size, mut id, mut created_ms, mut parent) = (None, None, None, None);
    let (mut whose, mut what, mut data_key, mut packs) = (None, None, None, None);
    let mut files = Vec::new();
    let m = MANIFEST;
    walk(m, content, |number, field| match number {
        2 => once(
            &mut block_size,
            number_u32(&field, m, "block_size")?,
            m,
            "block_size",
        ),
        3 => once(&mut id, checkpoint(&field, "id")?, m, "id"),
        4 => once(&mut created_ms, field.u64(m)?, m, "created_ms"),
        5 => once(&mut parent, checkpoint(&field, "parent")?, m, "parent"),
        6 => once(&mut whose, binding(field.bytes(m)?)?, m, "binding"),
        7 => once(&mut what, source(field.bytes(m)?)?, m, "source"),
        8 => {
            let bytes = field.bytes(m)?.try_into();
            let bytes = bytes.map_err(|_| malformed(m, "data_key is not of 8 bytes"))?;
            once(&mut data_key, DataKeyId(bytes), m, "data_key")
        }
        9 => once(&mut packs, pack_ids(field.bytes(m)?)?, m, "packs"),
        FILES => {
            bounded(files.len(), MAX_FILES, "files")?;
            files.push(file(files.len(), field.bytes(m)?)?);
            Ok(())
        }
        _ => Ok(()),
    })?;
    let block_size = required(m, None, "block_size", block_size)?;
    if block_size != BLOCK_SIZE {
        return Err(ManifestError::BlockSize {
            found: block_size,
            expected: BLOCK_SIZE,
        });
    }
    Ok(Manifest {
        id: required(m, None, "id", id)?,
        created_ms: required(m, None, "created_ms", created_ms)?,
        parent,
        binding: required(m, None, "binding", whose)?,
        source: required(m, None, "source", what)?,
        data_key,
        packs: required(m, None, "packs", packs)?,
        files,
    })
}

fn pack_ids(bytes: &[u8]) -> Result<Vec<PackId>, ManifestError> {
    let (ids, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(malformed(MANIFEST, "packs are not of 16 bytes each").into());
    }
    Ok(ids.iter().copied().map(PackId).collect())
}

fn binding(content: &[u8]) -> Result<Binding, ManifestError> {
    let message: wire::Binding = decode(BINDING, content)?;
    let need = |field, value: Option<String>| required(BINDING, None, field, value);
    match required(BINDING, None, "kind", message.kind)? {
        1 => {
            let named = [
                ("namespace", &message.namespace),
                ("namespace_uid", &message.namespace_uid),
                ("pod", &message.pod),
                ("container", &message.container),
            ];
            match named.into_iter().find(|(_, value)| value.is_some()) {
                Some((field, _)) => unexpected(BINDING, field),
                None => Ok(Binding::Free),
            }
        }
        2 => Ok(Binding::Pod {
            namespace: need("namespace", message.namespace)?,
            namespace_uid: need("namespace_uid", message.namespace_uid)?,
            pod: need("pod", message.pod)?,
            container: need("container", message.container)?,
        }),
        other => Err(invalid(BINDING, "kind", other.into())),
    }
}

fn source(content: &[u8]) -> Result<Source, ManifestError> {
    let mut source = Source::default();
    let m = SOURCE;
    walk(m, content, |number, field| {
        let mut one = |name| match name {
            "runtime" => once(&mut source.runtime, text(&field, m)?, m, name),
            "container_id" => once(&mut source.container_id, text(&field, m)?, m, name),
            "image" => once(&mut source.image, text(&field, m)?, m, name),
            "image_digest" => once(&mut source.image_digest, text(&field, m)?, m, name),
            "topology" => once(&mut source.topology, text(&field, m)?, m, name),
            "criu_version" => once(&mut source.criu_version, text(&field, m)?, m, name),
            "kernel_version" => once(&mut source.kernel_version, text(&field, m)?, m, name),
            _ => once(&mut source.node, text(&field, m)?, m, "node"),
        };
        match number {
            1 => one("runtime"),
            2 => one("container_id"),
            3 => one("image"),
            4 => one("image_digest"),
            6 => one("topology"),
            8 => one("criu_version"),
            9 => one("kernel_version"),
            10 => one("node"),
            5 => {
                let index = Some(source.mounts.len());
                bounded(source.mounts.len(), super::MAX_LIST, "mounts")?;
                let mount: wire::Mount = decode("manifest mount", field.bytes(m)?)?;
                let need = |name, value| required("manifest mount", index, name, value);
                source.mounts.push(Mount {
                    destination: need("destination", mount.destination)?,
                    source: need("source", mount.source)?,
                    kind: need("kind", mount.kind)?,
                });
                Ok(())
            }
            7 => {
                bounded(source.cpu_features.len(), super::MAX_LIST, "cpu_features")?;
                source.cpu_features.push(text(&field, m)?);
                Ok(())
            }
            11 => {
                let index = Some(source.annotations.len());
                bounded(source.annotations.len(), super::MAX_LIST, "annotations")?;
                let entry: wire::Annotation = decode("manifest annotation", field.bytes(m)?)?;
                let need = |name, value| required("manifest annotation", index, name, value);
                let name = need("name", entry.name)?;
                source.annotations.push((name, need("value", entry.value)?));
                Ok(())
            }
            _ => Ok(()),
        }
    })?;
    Ok(source)
}

fn file(index: usize, content: &[u8]) -> Result<FileEntry, ManifestError> {
    let (mut path, mut mode, mut uid, mut gid) = (None, None, None, None);
    let (mut modified_ms, mut kind, mut target) = (None, None, None);
    let mut spans = Vec::new();
    let m = FILE;
    walk(m, content, |number, field| match number {
        1 => once(&mut path, text(&field, m)?, m, "path"),
        2 => once(&mut mode, number_u32(&field, m, "mode")?, m, "mode"),
        3 => once(&mut uid, number_u32(&field, m, "uid")?, m, "uid"),
        4 => once(&mut gid, number_u32(&field, m, "gid")?, m, "gid"),
        5 => once(&mut modified_ms, field.u64(m)?, m, "modified_ms"),
        6 => once(&mut kind, number_u32(&field, m, "kind")?, m, "kind"),
        7 => once(&mut target, text(&field, m)?, m, "target"),
        8 => {
            spans.push(span(field.bytes(m)?)?);
            Ok(())
        }
        _ => Ok(()),
    })?;
    let index = Some(index);
    let content = match (required(m, index, "kind", kind)?, target) {
        (1 | 3, Some(_)) => return unexpected(m, "target"),
        (1 | 2, _) if !spans.is_empty() => return unexpected(m, "spans"),
        (1, None) => Content::Directory,
        (2, target) => Content::Symlink(required(m, index, "target", target)?),
        (3, None) => Content::Regular(spans),
        (other, _) => return Err(invalid(m, "kind", other.into())),
    };
    Ok(FileEntry {
        path: required(m, index, "path", path)?,
        mode: required(m, index, "mode", mode)?,
        uid: required(m, index, "uid", uid)?,
        gid: required(m, index, "gid", gid)?,
        modified_ms: required(m, index, "modified_ms", modified_ms)?,
        content,
    })
}

fn span(content: &[u8]) -> Result<Span, ManifestError> {
    let (mut size, mut label) = (None, None);
    let (mut zero, mut ids, mut encodings) = (None, None, None);
    let (mut packs, mut offsets, mut stored) = (None, None, None);
    let m = SPAN;
    walk(m, content, |number, field| match number {
        1 => once(&mut size, field.u64(m)?, m, "size"),
        2 => once(&mut label, text(&field, m)?, m, "label"),
        3 => once(&mut zero, field.bytes(m)?, m, "zero_blocks"),
        4 => once(&mut ids, field.bytes(m)?, m, "ids"),
        5 => once(&mut packs, field.bytes(m)?, m, "packs"),
        6 => once(&mut offsets, field.bytes(m)?, m, "offsets"),
        7 => once(&mut stored, field.bytes(m)?, m, "stored"),
        8 => once(&mut encodings, field.bytes(m)?, m, "encodings"),
        _ => Ok(()),
    })?;
    let size = required(m, None, "size", size)?;
    let blocks = blocks(&super::columns::Columns {
        count: size.div_ceil(BLOCK_SIZE.into()),
        zero,
        ids: ids.unwrap_or_default(),
        packs: packs.unwrap_or_default(),
        offsets: offsets.unwrap_or_default(),
        stored: stored.unwrap_or_default(),
        encodings: encodings.unwrap_or_default(),
    })?;
    Ok(Span {
        size,
        label,
        blocks,
    })
}

/// [`fields`], for callers whose errors are a manifest's.
fn walk<'a>(
    message: &'static str,
    content: &'a [u8],
    mut each: impl FnMut(u32, Field<'a>) -> Result<(), ManifestError>,
) -> Result<(), ManifestError> {
    let mut failed = None;
    let walked = fields(message, content, |number, field| {
        each(number, field).map_err(|error| {
            failed = Some(error);
            malformed(message, "stopped")
        })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(walked?),
    }
}

/// Sets what must not be set twice: readers that take the first and readers that take the last one would
/// disagree.
fn once<T>(
    slot: &mut Option<T>,
    value: T,
    message: &'static str,
    field: &'static str,
) -> Result<(), ManifestError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(ManifestError::Twice { message, field }),
    }
}

fn bounded(length: usize, limit: usize, field: &'static str) -> Result<(), ManifestError> {
    if length < limit {
        Ok(())
    } else {
        Err(FormatError::TooMany { field, limit }.into())
    }
}

fn text(field: &Field<'_>, message: &'static str) -> Result<String, ManifestError> {
    let text = std::str::from_utf8(field.bytes(message)?);
    let text = text.map_err(|_| malformed(message, "text is not UTF-8"))?;
    Ok(text.to_owned())
}

/// Not cut to 32 bits as other decoders would.
fn number_u32(
    field: &Field<'_>,
    message: &'static str,
    name: &'static str,
) -> Result<u32, ManifestError> {
    let value = field.u64(message)?;
    u32::try_from(value).map_err(|_| invalid(message, name, value))
}

fn checkpoint(field: &Field<'_>, name: &'static str) -> Result<CheckpointId, ManifestError> {
    let id = text(field, MANIFEST)?.parse();
    id.map_err(|source| ManifestError::Id {
        message: MANIFEST,
        field: name,
        source,
    })
}

pub(super) fn invalid(message: &'static str, field: &'static str, value: u64) -> ManifestError {
    ManifestError::Format(FormatError::InvalidValue {
        message,
        index: None,
        field,
        value,
    })
}

fn unexpected<T>(message: &'static str, field: &'static str) -> Result<T, ManifestError> {
    Err(ManifestError::Unexpected { message, field })
}
