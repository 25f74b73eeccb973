//! Where files of a checkpoint are cut: at the starts of buffer objects.
//!
//! The store knows no GPUs. Objects move within their file when others come and go; cut like this their blocks
//! are found again wherever they lie.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;

use rocferry_image::{FRAME_HEADER, FdDir, KfdImage, names, read_image};
use rocferry_store::push::{Cut, Cuts};

use crate::error::Error;

/// Directories of a checkpoint that CRIU's images may lie in: at the top, and in a pod's once for each container.
fn places(dir: &Path) -> Vec<String> {
    let mut places = vec![String::new(), "checkpoint".to_owned()];
    let containers = fs::read_dir(dir.join("containers")).into_iter().flatten();
    for container in containers.filter_map(Result::ok) {
        if let Some(name) = container.file_name().to_str() {
            places.push(format!("containers/{name}/checkpoint"));
        }
    }
    places
}

/// The cuts of a checkpoint's files.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpuCuts {
    files: HashMap<String, Vec<Cut>>,
    /// Somebody still writes the images.
    growing: bool,
}

impl GpuCuts {
    /// Reads the images of a checkpoint. One without GPUs has no cuts.
    pub(crate) fn of(dir: &Path) -> Result<Self, Error> {
        let mut cuts = Self::default();
        for place in places(dir) {
            let path = dir.join(&place);
            if path.is_dir() {
                cuts.add(&place, &path)?;
            }
        }
        Ok(cuts)
    }

    /// The same of images that are still being written: where those of a file are not known yet, it is left for later.
    pub(crate) fn so_far(dir: &Path) -> Self {
        let mut cuts = Self {
            growing: true,
            ..Self::default()
        };
        for place in places(dir) {
            // An image that is not complete cannot be read; those before it count.
            let _ = cuts.add(&place, &dir.join(&place));
        }
        cuts
    }

    fn add(&mut self, place: &str, dir: &Path) -> Result<(), Error> {
        let unreadable = |source| Error::Read {
            path: dir.to_owned(),
            source,
        };
        let images = FdDir(File::open(dir).map_err(unreadable)?);
        for file in fs::read_dir(dir).map_err(unreadable)? {
            let file = file.map_err(unreadable)?;
            // A pipe of that name is not waited for; it is refused when the directory is stored.
            if !file.file_type().map_err(unreadable)?.is_file() {
                continue;
            }
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            let Some(id) = names::parse_kfd(name) else {
                continue;
            };
            let image = read_image(&images, name).map_err(|source| Error::Image {
                dir: dir.to_owned(),
                source,
            })?;
            // It may be gone again: then it is not stored either.
            let Some(image): Option<KfdImage> = image else {
                continue;
            };
            for pages in image.pages_layout().files {
                let name = names::pages(id, pages.gpu);
                let path = match place {
                    "" => name,
                    place => format!("{place}/{name}"),
                };
                let cut = |part: &rocferry_image::PagePart| {
                    let address = image.bos.get(part.bo).map_or(0, |bo| bo.addr);
                    Cut {
                        at: FRAME_HEADER.saturating_add(part.offset),
                        label: Some(format!("GPU 0x{:x}, BO at {address:#x}", pages.gpu)),
                    }
                };
                let parts = pages.parts.iter().filter(|part| part.size > 0);
                self.files.insert(path, parts.map(cut).collect());
            }
        }
        Ok(())
    }
}

impl Cuts for GpuCuts {
    fn cuts(&self, path: &str) -> Vec<Cut> {
        self.files.get(path).cloned().unwrap_or_default()
    }

    fn known(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        !self.growing || !name.starts_with("amdgpu-pages-") || self.files.contains_key(path)
    }
}
