//! What a manifest must keep to, whether it is read or written.

use std::collections::{HashMap, HashSet};

use super::decode::invalid;
use super::error::excerpt;
use super::{
    BLOCK_SIZE, Binding, BlockRef, Content, Encoding, FileEntry, MAX_FILES, MAX_LIST, MAX_PACK,
    Manifest, ManifestError, PACK_HEADER, Source, Span,
};
use crate::FormatError;

/// Largest length of a path, of the target of a link and of a mount's ends, in bytes (`PATH_MAX`).
const MAX_PATH: usize = 4096;
/// Largest length of a part of a path, in bytes (`NAME_MAX`).
const MAX_NAME: usize = 255;
/// Largest length of a name of anything else, in bytes.
const MAX_TEXT: usize = 1024;
/// Largest length of a topology and of an annotation's value, in bytes.
const MAX_LONG_TEXT: usize = 4 << 20;
/// The year 10000, in milliseconds since 1970.
const MAX_TIME: u64 = 253_402_300_800_000;

impl Manifest {
    /// Checks everything that can be checked without reading a pack: paths stay within the checkpoint, come
    /// once and after their parents, sizes add up, and every block can be where it is said to be.
    ///
    /// # Errors
    /// [`ManifestError`] for the first thing that is wrong.
    pub fn validate(&self) -> Result<(), ManifestError> {
        if self.parent.as_ref() == Some(&self.id) {
            return Err(ManifestError::OwnParent);
        }
        time("created_ms", self.created_ms)?;
        self.binding.validate()?;
        self.source.validate()?;
        if self.files.len() > MAX_FILES {
            return too_many("files", MAX_FILES);
        }
        tree(&self.files)?;
        let mut used = vec![false; self.packs.len()];
        let mut sum = 0u64;
        for file in &self.files {
            let size = self.file(file, &mut used)?;
            sum = sum.checked_add(size).ok_or(ManifestError::SumOverflow)?;
        }
        let mut seen = HashSet::new();
        for (&pack, used) in self.packs.iter().zip(used) {
            let reason = if !seen.insert(pack) {
                "is listed twice"
            } else if !used {
                "is listed, but no block is in it"
            } else {
                continue;
            };
            return Err(ManifestError::Pack { pack, reason });
        }
        Ok(())
    }

    /// Size of the file.
    fn file(&self, file: &FileEntry, used: &mut [bool]) -> Result<u64, ManifestError> {
        if file.mode >= 0o10000 {
            return Err(invalid("manifest file", "mode", file.mode.into()));
        }
        time("modified_ms", file.modified_ms)?;
        if let Content::Symlink(target) = &file.content {
            text("target", target, 1..=MAX_PATH)?;
        }
        let mut size = 0u64;
        for (number, span) in file.spans().iter().enumerate() {
            self.span(span, used).map_err(|(block, reason)| {
                let path = excerpt(&file.path);
                match block {
                    None => ManifestError::Span {
                        path,
                        span: number,
                        reason,
                    },
                    Some(block) => ManifestError::Block {
                        path,
                        span: number,
                        block,
                        reason,
                    },
                }
            })?;
            // No file system has files of 2^63 bytes.
            size = size
                .checked_add(span.size)
                .filter(|size| i64::try_from(*size).is_ok())
                .ok_or_else(|| ManifestError::Path {
                    path: excerpt(&file.path),
                    reason: "the file is too large",
                })?;
        }
        Ok(size)
    }

    fn span(&self, span: &Span, used: &mut [bool]) -> Result<(), (Option<usize>, &'static str)> {
        if span.size == 0 {
            return Err((None, "it is empty"));
        }
        if span.blocks.len() as u64 != span.size.div_ceil(BLOCK_SIZE.into()) {
            return Err((None, "the number of its blocks does not fit its size"));
        }
        if let Some(label) = &span.label
            && text("label", label, 1..=MAX_TEXT).is_err()
        {
            return Err((None, "its label is empty, too long or not text"));
        }
        if span.blocks.stored().is_empty() {
            return Ok(());
        }
        for (index, block) in span.blocks.iter().enumerate() {
            if let BlockRef::Stored {
                pack,
                offset,
                stored,
                encoding,
                ..
            } = block
            {
                let failed = |reason| (Some(index), reason);
                let pack = usize::try_from(*pack).ok();
                let pack = pack.and_then(|pack| used.get_mut(pack));
                *pack.ok_or_else(|| failed("its pack is not in the list"))? = true;
                let plain = u64::from(span.block_size(index));
                let length = u64::from(*stored);
                let overhead = u64::from(encoding.overhead(self.data_key.is_some()));
                let fits = match encoding {
                    Encoding::Raw => length == plain + overhead,
                    Encoding::Zstd => (overhead + 1..overhead + plain).contains(&length),
                };
                if !fits {
                    return Err(failed("its length in the pack does not fit its size"));
                }
                let end = offset.checked_add(length);
                if *offset < PACK_HEADER || end.is_none_or(|end| end > MAX_PACK) {
                    return Err(failed("its offset is outside any pack"));
                }
            }
        }
        Ok(())
    }
}

/// Paths: relative, without detours, each once, each in a directory that is listed before it.
fn tree(files: &[FileEntry]) -> Result<(), ManifestError> {
    let mut seen: HashMap<&str, bool> = HashMap::with_capacity(files.len());
    for file in files {
        let path = file.path.as_str();
        let failed = |reason| {
            let path = excerpt(path);
            Err(ManifestError::Path { path, reason })
        };
        if path.len() > MAX_PATH {
            return failed("it is too long");
        }
        if path.contains('\0') {
            return failed("it has a zero byte");
        }
        for part in path.split('/') {
            match part {
                "" => return failed("it has an empty part"),
                "." | ".." => return failed("it has a . or .. part"),
                part if part.len() > MAX_NAME => return failed("it has a part that is too long"),
                _ => {}
            }
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            match seen.get(parent) {
                Some(true) => {}
                Some(false) => return failed("what it is in is no directory"),
                None => return failed("its directory is not listed before it"),
            }
        }
        let directory = file.content == Content::Directory;
        if seen.insert(path, directory).is_some() {
            return failed("it is listed twice");
        }
    }
    Ok(())
}

impl Binding {
    /// Checks that a manifest can carry it.
    ///
    /// # Errors
    /// [`ManifestError::Text`] for the first name that is empty, longer than 255 bytes, or has control characters.
    pub fn validate(&self) -> Result<(), ManifestError> {
        let Self::Pod {
            namespace,
            namespace_uid,
            pod,
            container,
        } = self
        else {
            return Ok(());
        };
        let names = [
            ("namespace", namespace),
            ("namespace_uid", namespace_uid),
            ("pod", pod),
            ("container", container),
        ];
        for (field, name) in names {
            text(field, name, 1..=MAX_NAME)?;
            if name.contains(char::is_control) {
                let bytes = name.len();
                let reason = "it has control characters";
                return Err(ManifestError::Text {
                    field,
                    bytes,
                    reason,
                });
            }
        }
        Ok(())
    }
}

impl Source {
    fn validate(&self) -> Result<(), ManifestError> {
        let short = [
            ("runtime", &self.runtime),
            ("container_id", &self.container_id),
            ("image", &self.image),
            ("image_digest", &self.image_digest),
            ("criu_version", &self.criu_version),
            ("kernel_version", &self.kernel_version),
            ("node", &self.node),
        ];
        for (field, value) in short {
            if let Some(value) = value {
                text(field, value, 1..=MAX_TEXT)?;
            }
        }
        if let Some(topology) = &self.topology {
            text("topology", topology, 1..=MAX_LONG_TEXT)?;
        }
        let lists = [
            ("mounts", self.mounts.len()),
            ("cpu_features", self.cpu_features.len()),
            ("annotations", self.annotations.len()),
        ];
        for (field, length) in lists {
            if length > MAX_LIST {
                return too_many(field, MAX_LIST);
            }
        }
        for mount in &self.mounts {
            text("mount destination", &mount.destination, 1..=MAX_PATH)?;
            text("mount source", &mount.source, 0..=MAX_PATH)?;
            text("mount kind", &mount.kind, 0..=MAX_TEXT)?;
        }
        for feature in &self.cpu_features {
            text("CPU feature", feature, 1..=MAX_TEXT)?;
        }
        let mut seen = HashSet::new();
        for (name, value) in &self.annotations {
            text("annotation name", name, 1..=MAX_TEXT)?;
            text("annotation", value, 0..=MAX_LONG_TEXT)?;
            if !seen.insert(name) {
                return Err(ManifestError::Text {
                    field: "annotation name",
                    bytes: name.len(),
                    reason: "it is there twice",
                });
            }
        }
        Ok(())
    }
}

fn text(
    field: &'static str,
    text: &str,
    lengths: std::ops::RangeInclusive<usize>,
) -> Result<(), ManifestError> {
    let bytes = text.len();
    let reason = if bytes < *lengths.start() {
        "it is empty"
    } else if bytes > *lengths.end() {
        "it is too long"
    } else if text.contains('\0') {
        "it has a zero byte"
    } else {
        return Ok(());
    };
    Err(ManifestError::Text {
        field,
        bytes,
        reason,
    })
}

fn time(field: &'static str, value: u64) -> Result<(), ManifestError> {
    if value < MAX_TIME {
        Ok(())
    } else {
        Err(invalid("manifest", field, value))
    }
}

fn too_many<T>(field: &'static str, limit: usize) -> Result<T, ManifestError> {
    Err(FormatError::TooMany { field, limit }.into())
}
