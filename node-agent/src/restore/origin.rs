//! Where a checkpoint comes from: a store, or an archive.

use std::fs::File;
use std::path::{Path, PathBuf};

use rocferry_image::manifest::CheckpointId;
use rocferry_store::interchange::Form;

use crate::error::Error;
use crate::image::checkpoint_id;
use crate::settings::SettingsArgs;

/// What was named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A checkpoint of a store.
    Store { url: String, id: CheckpointId },
    /// An archive of an engine.
    Archive { path: PathBuf, form: Form },
}

impl Origin {
    /// Of `--from` and the id that goes with a store.
    pub(super) fn of(from: &str, id: Option<&str>, image: bool) -> Result<Self, Error> {
        let url = from.contains("://") || from == "memory:";
        let argument = |what, value: &str, wanted| Error::Argument {
            what,
            value: value.to_owned(),
            wanted,
        };
        let form = match image {
            true => Form::Image,
            false => Form::Archive,
        };
        match (url, id) {
            (true, _) if image => {
                let wanted = "with --image, the file of an OCI image";
                Err(argument("file", from, wanted))
            }
            (true, Some(id)) => Ok(Self::Store {
                url: from.to_owned(),
                id: checkpoint_id(id)
                    .map_err(|_| argument("checkpoint", id, "names as `image ls` shows them"))?,
            }),
            (true, None) => {
                let wanted = "with a store, the id of one of its checkpoints";
                Err(argument("checkpoint", "", wanted))
            }
            (false, Some(_)) => {
                let wanted = "URLs (file:///DIRECTORY, s3://…, oci://…), or the path of an archive and no id,";
                Err(argument("store", from, wanted))
            }
            (false, None) => Ok(Self::Archive {
                path: from.into(),
                form,
            }),
        }
    }
}

/// Opens an archive, if the administrator lets unsigned ones be restored and the user asked for it.
pub(super) fn open(path: &Path, unsigned: bool, settings: &SettingsArgs) -> Result<File, Error> {
    let allowed = settings.read()?.unsigned_archives;
    if !(allowed && unsigned) {
        return Err(Error::Unsigned {
            path: path.to_owned(),
            settings: (!allowed).then(|| settings.file().to_owned()),
        });
    }
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    // A pipe would be waited for.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(Error::NoFile {
            path: path.to_owned(),
        });
    }
    File::open(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_ids_and_an_archive_has_none() {
        let id = "20261130T200000Z-0123456789ab";
        let known = checkpoint_id(id).is_ok();
        let store = Origin::of("file:///s", Some(id), false);
        assert_eq!(store.is_ok(), known, "{store:?}");
        let archive = Origin::of("/a/b.tar", None, false).expect("an archive");
        assert!(matches!(
            archive,
            Origin::Archive {
                form: Form::Archive,
                ..
            }
        ));
        for (from, id, image) in [
            ("file:///s", None, false),
            ("file:///s", Some(id), true),
            ("/a/b.tar", Some(id), false),
            ("file:///s", Some("../x"), false),
        ] {
            Origin::of(from, id, image).expect_err(from);
        }
    }
}
