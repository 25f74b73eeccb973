//! `image export` and `image import`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use rocferry_image::manifest::CheckpointId;
use rocferry_store::archive::{Engine, ImageNames};
use rocferry_store::interchange::Form;
use tempfile::NamedTempFile;

use super::access::Access;
use super::bar::Bar;
use super::push::{Storing, finish};
use crate::cli::{Answer, Exit};
use crate::error::Error;
use crate::format::Format;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum For {
    /// podman container restore --import
    Podman,
    /// CRI-O under a kubelet
    CriO,
    /// containerd 2.1 to 2.3 under a kubelet
    Containerd,
}

impl From<For> for Engine {
    fn from(engine: For) -> Self {
        match engine {
            For::Podman => Self::Podman,
            For::CriO => Self::CriO,
            For::Containerd => Self::Containerd,
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 the archive is written, 2 it is not: there is no file of that name then."
)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    access: Access,
    /// The checkpoint
    #[arg(value_parser = super::checkpoint_id)]
    id: CheckpointId,
    /// The archive, which must not be there yet
    file: PathBuf,
    /// Which engine is to restore it
    #[arg(long = "for", value_enum, value_name = "ENGINE")]
    engine: For,
    /// Write an OCI image (the tar of its layout) instead of an archive
    #[arg(long)]
    image: bool,
    /// Name of the image, as podman load and ctr image import take it
    #[arg(long, value_name = "REFERENCE", requires = "image")]
    name: Option<String>,
}

impl ExportArgs {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let store = self.access.open().await?;
        let object = self.access.checkpoint(&store, &self.id).await?;
        let manifest = Arc::new(object.manifest);
        let out = Output::create(&self.file)?;
        let file = out.file()?;
        let engine = self.engine.into();
        let bytes = if self.image {
            let names = ImageNames {
                reference: self.name.clone(),
                criu_version: manifest.source.criu_version.clone(),
                kernel_version: manifest.source.kernel_version.clone(),
                runtime: manifest.source.runtime.clone(),
                created: None,
            };
            let written = store.export_image(manifest, engine, names, file).await?;
            written.bytes
        } else {
            store.export(manifest, engine, file).await?.bytes
        };
        out.keep()?;
        Ok(Answer {
            text: format!("{}: {bytes} bytes\n", self.file.display()),
            notes: Vec::new(),
            exit: Exit::Yes,
        })
    }
}

/// A file that gets its name when it is complete. Until then it has another one, beside it.
struct Output {
    path: PathBuf,
    file: NamedTempFile,
}

impl Output {
    fn create(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::WriteFile {
            path: path.to_owned(),
            source,
        };
        if path.symlink_metadata().is_ok() {
            return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".rocferry-export-")
            .tempfile_in(dir.unwrap_or(Path::new(".")));
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(failed)?,
        })
    }

    fn file(&self) -> Result<File, Error> {
        let file = self.file.as_file().try_clone();
        file.map_err(|source| self.failed(source))
    }

    fn keep(self) -> Result<(), Error> {
        let synced = self.file.as_file().sync_all();
        synced.map_err(|source| self.failed(source))?;
        let path = self.path;
        match self.file.persist_noclobber(&path) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::WriteFile {
                path,
                source: error.error,
            }),
        }
    }

    fn failed(&self, source: std::io::Error) -> Error {
        let path = self.path.clone();
        Error::WriteFile { path, source }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 the checkpoint is stored, 2 it is not.")]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    storing: Storing,
    /// The archive
    file: PathBuf,
    /// It is an OCI image (the tar of its layout) with a checkpoint in it
    #[arg(long)]
    image: bool,
    /// Where there is room for what a compressed archive holds
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    spool: PathBuf,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl ImportArgs {
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let file = File::open(&self.file).map_err(|source| Error::Read {
            path: self.file.clone(),
            source,
        })?;
        let store = self.access.open_or_make().await?;
        let form = match self.image {
            true => Form::Image,
            false => Form::Archive,
        };
        let mut facts = self.storing.facts()?;
        let mut upload = store.push(self.storing.options()).await?;
        let bar = Bar::show("Storing", upload.progress());
        let added = upload.add_archive(file, form, &self.spool).await;
        let archive = match added {
            Ok(archive) => archive,
            Err(error) => {
                drop(bar);
                upload.abort().await;
                return Err(error.into());
            }
        };
        facts.source = archive.source;
        finish(upload, facts, bar, self.output).await
    }
}
