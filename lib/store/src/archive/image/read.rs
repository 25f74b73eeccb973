//! Reading images.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek, SeekFrom};

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::super::input::Input;
use super::super::origin::is_sha256;
use super::super::read::{is_directory, read_at};
use super::super::records::{Record, Records};
use super::super::tree::Tree;
use super::super::{Archive, Compression, Limits, MAX_JSON, ReadError, Sink, json, pathname};
use super::ImageError;
use super::annotations::{PODMAN_RUNTIME, TRIGGERS};
use super::layout::{
    BLOBS, Descriptor, INDEX, ImageManifest, Index, LAYER_TYPES, LAYOUT, Layout, MANIFEST_TYPE,
    SHA256,
};
use super::write::hex;

/// Most files of a layout: one image has five.
const MAX_FILES: usize = 4096;

/// An image that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadImage {
    /// The archive that its layer is.
    pub archive: Archive,
    /// Digest of its manifest.
    pub digest: String,
    /// Annotations of its manifest.
    pub annotations: BTreeMap<String, String>,
}

/// Reads the one checkpoint in the tar of an OCI image layout. All blobs are verified before the sink gets
/// anything.
///
/// # Errors
/// [`ImageError`] for whatever is refused, and for what the sink says.
pub fn read_image<R: Read + Seek>(
    input: &mut R,
    limits: &Limits,
    sink: &mut dyn Sink,
) -> Result<ReadImage, ImageError> {
    let start = input.stream_position()?;
    let files = files(input, limits)?;
    let mut layout = Layouted {
        input,
        start,
        files,
    };
    let version: Layout = layout.document(LAYOUT)?;
    if !version.image_layout_version.starts_with("1.") {
        let reason = "its version is not 1".to_owned();
        return Err(ImageError::Document {
            member: LAYOUT.to_owned(),
            reason,
        });
    }
    let (digest, manifest) = layout.checkpoint()?;
    let [layer] = manifest.layers.as_slice() else {
        let reason = format!("it has {} layers", manifest.layers.len());
        return Err(ImageError::NoCheckpoint { reason });
    };
    if !LAYER_TYPES.contains(&layer.media_type.as_str()) {
        let reason: String = layer.media_type.chars().take(120).collect();
        let reason = format!("its layer is {reason:?}");
        return Err(ImageError::NoCheckpoint { reason });
    }
    layout.place(&manifest.config)?;
    let place = layout.place(layer)?;
    layout
        .input
        .seek(SeekFrom::Start(start.saturating_add(place.offset)))?;
    let content = layout.input.take(place.size);
    let archive = read_at(content, start.saturating_add(place.offset), limits, sink);
    Ok(ReadImage {
        archive: archive.map_err(|source| ImageError::Archive { source })?,
        digest,
        annotations: manifest.annotations.unwrap_or_default(),
    })
}

/// Where a file is.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    size: u64,
}

/// Finds the files of a layout, and verifies its blobs.
fn files<R: Read>(input: &mut R, limits: &Limits) -> Result<HashMap<String, Place>, ImageError> {
    let refused = |source| ImageError::Layout { source };
    let input = Input::open(input, limits).map_err(refused)?;
    if input.compression() != Compression::None {
        return Err(ImageError::Compressed);
    }
    let mut limits = *limits;
    limits.members = limits.members.min(MAX_FILES);
    let mut records = Records::new(input);
    let (mut tree, mut files) = (Tree::default(), HashMap::new());
    while let Some(record) = records.next().map_err(refused)? {
        let Some(path) = file(&record, &mut tree, &limits).map_err(refused)? else {
            continue;
        };
        let offset = records.input.position();
        let size = record.stored;
        if record.sparse.is_some() {
            // Its bytes are not where they belong. Nobody writes a layout like this.
            let reason = "it has holes".to_owned();
            return Err(ImageError::Document {
                member: path,
                reason,
            });
        }
        if let Some(name) = path.strip_prefix(BLOBS) {
            let mut hash = Sha256::new();
            let mut content = records.content();
            let mut buf = vec![0; 128 << 10];
            let copied = loop {
                match content.read(&mut buf) {
                    Ok(0) => break Ok(()),
                    Ok(read) => hash.update(buf.get(..read).unwrap_or_default()),
                    Err(error) => break Err(error),
                }
            };
            records.check_fault(copied.err()).map_err(refused)?;
            let actual = hex(&hash.finalize());
            if actual != name {
                return Err(ImageError::Digest {
                    digest: format!("{SHA256}{name}"),
                    actual: format!("{SHA256}{actual}"),
                });
            }
        }
        files.insert(path, Place { offset, size });
    }
    Ok(files)
}

/// The path of a file; `None` for a directory.
fn file(record: &Record, tree: &mut Tree, limits: &Limits) -> Result<Option<String>, ReadError> {
    let refused = |refusal| record.refused(refusal);
    let name = pathname::parse(&record.name).map_err(refused)?;
    let directory = is_directory(record, &name).map_err(refused)?;
    if name.path.is_empty() {
        tree.root().map_err(refused)?;
    } else {
        tree.add(name.path, directory, limits).map_err(refused)?;
    }
    Ok((!directory).then(|| name.path.to_owned()))
}

struct Layouted<'a, R> {
    input: &'a mut R,
    start: u64,
    files: HashMap<String, Place>,
}

impl<R: Read + Seek> Layouted<'_, R> {
    /// The manifest of the one image that is a checkpoint, and its digest.
    fn checkpoint(&mut self) -> Result<(String, ImageManifest), ImageError> {
        let index: Index = self.document(INDEX)?;
        let mut found = None;
        for entry in &index.manifests {
            if entry.media_type != MANIFEST_TYPE {
                continue;
            }
            let path = self.path(entry)?;
            let manifest: ImageManifest = self.document(&path)?;
            let all = [manifest.annotations.as_ref(), entry.annotations.as_ref()];
            let triggers = TRIGGERS.iter().chain([&PODMAN_RUNTIME]);
            let is_checkpoint = all
                .into_iter()
                .flatten()
                .any(|annotations| triggers.clone().any(|name| annotations.contains_key(*name)));
            if is_checkpoint && found.replace((entry.digest.clone(), manifest)).is_some() {
                let reason = "there is more than one".to_owned();
                return Err(ImageError::NoCheckpoint { reason });
            }
        }
        found.ok_or_else(|| {
            let reason = "no annotation says that it is one".to_owned();
            ImageError::NoCheckpoint { reason }
        })
    }

    /// Where the blob is that is referred to.
    fn place(&self, to: &Descriptor) -> Result<Place, ImageError> {
        let path = self.path(to)?;
        let place = self.files.get(&path).copied();
        place.ok_or(ImageError::Missing { member: path })
    }

    /// The path of a blob that is there and has the right size.
    fn path(&self, to: &Descriptor) -> Result<String, ImageError> {
        let excerpt: String = to.digest.chars().take(120).collect();
        let hex = to.digest.strip_prefix(SHA256).filter(|hex| is_sha256(hex));
        let hex = hex.ok_or_else(|| ImageError::Document {
            member: excerpt,
            reason: "it is no SHA-256".to_owned(),
        })?;
        let path = format!("{BLOBS}{hex}");
        match self.files.get(&path) {
            None => Err(ImageError::Missing { member: path }),
            Some(place) if place.size != to.size => Err(ImageError::Size {
                digest: to.digest.clone(),
                expected: to.size,
                actual: place.size,
            }),
            Some(_) => Ok(path),
        }
    }

    /// One of the JSON files.
    fn document<T: DeserializeOwned>(&mut self, member: &str) -> Result<T, ImageError> {
        let failed = |reason| ImageError::Document {
            member: member.to_owned(),
            reason,
        };
        let place = self.files.get(member).ok_or_else(|| ImageError::Missing {
            member: member.to_owned(),
        })?;
        if place.size > MAX_JSON {
            let bytes = place.size;
            return Err(failed(format!("{bytes} bytes, the limit is {MAX_JSON}")));
        }
        let mut data = Vec::new();
        self.input
            .seek(SeekFrom::Start(self.start.saturating_add(place.offset)))?;
        self.input.take(place.size).read_to_end(&mut data)?;
        json::parse_object(&data).map_err(|refusal| failed(refusal.to_string()))
    }
}
