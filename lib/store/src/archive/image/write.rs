//! Writing images.

use std::io::{self, Seek, SeekFrom, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::super::output::{END, Member, padding};
use super::super::plan::Plan;
use super::super::{Engine, Facts, write::Source};
use super::layout::{
    BLOBS, CONFIG_TYPE, CONTAINERD_NAME, Descriptor, INDEX, INDEX_TYPE, ImageConfig, ImageManifest,
    Index, LAYER_TYPE, LAYOUT, Layout, MANIFEST_TYPE, REF_NAME, RootFs, SHA256,
};
use super::{ImageError, ImageNames, annotations};

/// An image that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenImage {
    /// Digest of its manifest.
    pub digest: String,
    /// Bytes of its layout.
    pub bytes: u64,
}

/// Writes a checkpoint as the tar of an OCI image layout. Its one layer is the archive that [`super::super::write`]
/// makes for the engine; all three engines see that it is a checkpoint.
///
/// The output must be empty and able to seek: the name of the layer is known only when it is written.
///
/// # Errors
/// [`ImageError`]; some may be written by then.
pub fn write_image<W: Write + Seek>(
    source: &mut dyn Source,
    engine: Engine,
    facts: &Facts,
    names: &ImageNames,
    out: &mut W,
) -> Result<WrittenImage, ImageError> {
    let plan = Plan::make(source, engine, facts);
    let plan = plan.map_err(|source| ImageError::Write { source })?;
    let annotations = annotations::make(&plan.documents, engine, names);
    let mut layout = Writer { out, bytes: 0 };
    let layer = layout.layer(&plan, source)?;
    let config = ImageConfig {
        created: names.created.clone(),
        architecture: "amd64".to_owned(),
        os: "linux".to_owned(),
        config: [].into(),
        rootfs: RootFs {
            kind: "layers".to_owned(),
            diff_ids: vec![layer.digest.clone()],
        },
    };
    let config = layout.blob(CONFIG_TYPE, &config)?;
    let manifest = ImageManifest {
        schema_version: 2,
        media_type: Some(MANIFEST_TYPE.to_owned()),
        config,
        layers: vec![layer],
        annotations: Some(annotations.clone()),
    };
    let mut manifest = layout.blob(MANIFEST_TYPE, &manifest)?;
    let digest = manifest.digest.clone();
    let mut annotations = annotations;
    if let Some(reference) = &names.reference {
        for name in [REF_NAME, CONTAINERD_NAME] {
            annotations.insert(name.to_owned(), reference.clone());
        }
    }
    manifest.annotations = Some(annotations);
    let index = Index {
        schema_version: 2,
        media_type: Some(INDEX_TYPE.to_owned()),
        manifests: vec![manifest],
    };
    layout.json(INDEX, &index)?;
    let version = Layout {
        image_layout_version: "1.0.0".to_owned(),
    };
    layout.json(LAYOUT, &version)?;
    layout.put(&END)?;
    layout.out.flush()?;
    let bytes = layout.bytes;
    Ok(WrittenImage { digest, bytes })
}

struct Writer<'a, W> {
    out: &'a mut W,
    bytes: u64,
}

impl<W: Write + Seek> Writer<'_, W> {
    fn put(&mut self, data: &[u8]) -> io::Result<()> {
        self.out.write_all(data)?;
        self.bytes += data.len() as u64;
        Ok(())
    }

    fn file(&mut self, name: &str, content: &[u8]) -> Result<(), ImageError> {
        let size = content.len() as u64;
        self.put(&header(name, size))?;
        self.put(content)?;
        self.put(padding(size))?;
        Ok(())
    }

    fn json<T: Serialize>(&mut self, name: &str, value: &T) -> Result<(), ImageError> {
        let content = serde_json::to_vec(value).map_err(io::Error::from)?;
        self.file(name, &content)
    }

    fn blob<T: Serialize>(
        &mut self,
        media_type: &str,
        value: &T,
    ) -> Result<Descriptor, ImageError> {
        let content = serde_json::to_vec(value).map_err(io::Error::from)?;
        let hex = hex(&Sha256::digest(&content));
        self.file(&format!("{BLOBS}{hex}"), &content)?;
        Ok(descriptor(media_type, &hex, content.len() as u64))
    }

    /// The archive: its size is known before, its name afterwards.
    fn layer(&mut self, plan: &Plan, source: &mut dyn Source) -> Result<Descriptor, ImageError> {
        let size = plan.size();
        let start = self.out.stream_position()?;
        // As long as any other name there.
        let unknown = "0".repeat(64);
        self.put(&header(&format!("{BLOBS}{unknown}"), size))?;
        let mut hashing = Hashing {
            out: &mut *self.out,
            hash: Sha256::new(),
            written: 0,
        };
        let written = plan.write(source, &mut hashing);
        written.map_err(|source| ImageError::Write { source })?;
        let (written, hex) = (hashing.written, hex(&hashing.hash.finalize()));
        if written != size {
            let digest = format!("{SHA256}{hex}");
            return Err(ImageError::Size {
                digest,
                expected: size,
                actual: written,
            });
        }
        self.bytes += size;
        self.put(padding(size))?;
        self.out.seek(SeekFrom::Start(start))?;
        self.out
            .write_all(&header(&format!("{BLOBS}{hex}"), size))?;
        self.out.seek(SeekFrom::Start(start + self.bytes))?;
        Ok(descriptor(LAYER_TYPE, &hex, size))
    }
}

fn header(name: &str, size: u64) -> Vec<u8> {
    let member = Member {
        name,
        directory: false,
        mode: 0o644,
        uid: 0,
        gid: 0,
        modified: 0,
        size,
    };
    member.header()
}

fn descriptor(media_type: &str, hex: &str, size: u64) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest: format!("{SHA256}{hex}"),
        size,
        annotations: None,
    }
}

/// The digits of a digest.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Hashing<'a, W> {
    out: &'a mut W,
    hash: Sha256,
    written: u64,
}

impl<W: Write> Write for Hashing<'_, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.out.write(buf)?;
        self.hash.update(buf.get(..written).unwrap_or_default());
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
