//! The processes of a checkpoint.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rocferry_image::{
    FdDir, FileId, ImageDir, ImageError, KfdImage, TaskRecord, names, read_image, source_system,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use super::{Process, Source};
use crate::error::Error;

/// Kfd images in a folder, in order of their number; none if it holds no checkpoint.
pub(super) fn find(dir: &Path) -> Result<Vec<FileId>, Error> {
    let names = list(dir, &open_dir(dir)?)?;
    let mut found: Vec<FileId> = names
        .iter()
        .filter_map(|name| names::parse_kfd(name))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// The GPUs of every process, in order of its image; none if the folder holds no checkpoint.
pub(super) fn read(dir: &Path) -> Result<Vec<Source>, Error> {
    let images = open_dir(dir)?;
    let names = list(dir, &images)?;
    let records = records(dir, &images, &names)?;
    let mut sources = Vec::new();
    for file in find(dir)? {
        let name = names::kfd(file);
        let unusable = |source| Error::Image {
            dir: dir.to_owned(),
            source,
        };
        let image: KfdImage = read_image(&images, &name)
            .and_then(|image| image.ok_or_else(|| ImageError::Missing { name: name.clone() }))
            .map_err(unusable)?;
        let record = records.iter().find(|record| record.kfd_file == file);
        if let Some(record) = record.filter(|record| record.pid != image.pid) {
            return Err(Error::Mixture {
                dir: dir.to_owned(),
                first: names::task_record(record.pid),
                second: name,
            });
        }
        sources.push(Source {
            process: Some(Process {
                pid: image.pid,
                image: name,
            }),
            system: source_system(&image, record),
        });
    }
    Ok(sources)
}

/// Our records, each of which must have its image. The C plugin writes none.
fn records(dir: &Path, images: &Images, names: &[String]) -> Result<Vec<TaskRecord>, Error> {
    let unusable = |source| Error::Image {
        dir: dir.to_owned(),
        source,
    };
    let mut records: Vec<TaskRecord> = Vec::new();
    let mut pids: Vec<_> = names
        .iter()
        .filter_map(|name| names::parse_task_record(name))
        .collect();
    pids.sort_unstable();
    for pid in pids {
        let name = names::task_record(pid);
        let Some(record) = read_image::<TaskRecord>(images, &name).map_err(unusable)? else {
            continue;
        };
        let image = names::kfd(record.kfd_file);
        if !names.contains(&image) {
            return Err(unusable(ImageError::Missing { name: image }));
        }
        records.push(record);
    }
    Ok(records)
}

fn open_dir(dir: &Path) -> Result<Images, Error> {
    let open = File::open(dir).map_err(|source| Error::Read {
        path: dir.to_owned(),
        source,
    })?;
    Ok(Images(FdDir(open.into())))
}

fn list(dir: &Path, images: &Images) -> Result<Vec<String>, Error> {
    let names = images.list().map_err(|source| Error::Read {
        path: dir.to_owned(),
        source,
    })?;
    Ok(names.unwrap_or_default())
}

/// A folder of which only plain files are opened: a pipe in it would block.
struct Images(FdDir<OwnedFd>);

impl ImageDir for Images {
    fn create(&self, name: &str) -> io::Result<OwnedFd> {
        self.0.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = match openat(&self.0.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(Some(file)),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a plain file",
            )),
        }
    }

    fn list(&self) -> io::Result<Option<Vec<String>>> {
        self.0.list()
    }
}
