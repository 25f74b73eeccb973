//! Which store, and whose keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocferry_image::manifest::CheckpointId;
use rocferry_store::backend::{self, Backend};
use rocferry_store::envelope::{ExpectedBinding, ManifestObject, PublicKey, Signer, TrustPolicy};
use rocferry_store::seal::{KeyConfig, WrappingKey};
use rocferry_store::{Store, StoreError, StoreName, StoreOptions};

use crate::error::Error;

/// Largest file with keys, in bytes.
const MAX_KEYS: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Store")]
pub(super) struct Access {
    /// The store: file:///DIRECTORY, s3://BUCKET/PREFIX or oci://HOST/REPOSITORY
    #[arg(long, env = "ROCFERRY_STORE", value_name = "URL")]
    store: String,
    #[command(flatten)]
    keys: StoreKeys,
}

/// All but where the store is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreKeys {
    /// The tenant's part of the store: the UID of a namespace
    #[arg(
        long,
        env = "ROCFERRY_TENANT",
        default_value = "default",
        value_name = "NAME"
    )]
    tenant: String,
    /// A file with age identities: opens the store, and seals a new one
    #[arg(long, env = "ROCFERRY_IDENTITY", value_name = "FILE")]
    identity: Vec<PathBuf>,
    /// A file with age recipients: a new store is sealed for them as well
    #[arg(long, env = "ROCFERRY_RECIPIENTS", value_name = "FILE")]
    recipients: Vec<PathBuf>,
    /// A file with a key of 32 bytes: opens the store, and seals a new one
    #[arg(long, env = "ROCFERRY_KEY_FILE", value_name = "FILE")]
    key_file: Vec<PathBuf>,
    /// The data key that all others must come from, whatever the store says
    #[arg(long, env = "ROCFERRY_PIN", value_name = "ID")]
    pin: Option<String>,
    /// A public key of which one must have signed a checkpoint: a file, or 64 hexadecimal digits
    #[arg(long, env = "ROCFERRY_TRUST", value_name = "FILE|KEY")]
    trust: Vec<String>,
    /// Take checkpoints that nobody signed, although --trust is given
    #[arg(long)]
    allow_unsigned: bool,
}

impl Access {
    /// Opens the store; makes it if there is none.
    pub(super) async fn open_or_make(&self) -> Result<Store, Error> {
        self.keys.open_or_make(&self.store).await
    }

    /// Opens the store.
    pub(super) async fn open(&self) -> Result<Store, Error> {
        self.keys.open(&self.store).await
    }

    /// What opens the store, and seals a new one.
    pub(super) fn keys(&self) -> Result<KeyConfig, Error> {
        self.keys.config()
    }

    /// Whose checkpoints are taken.
    pub(super) fn policy(&self) -> Result<TrustPolicy, Error> {
        self.keys.policy()
    }

    /// A checkpoint of the store that the policy takes.
    pub(super) async fn checkpoint(
        &self,
        store: &Store,
        id: &CheckpointId,
    ) -> Result<ManifestObject, Error> {
        self.keys.checkpoint(store, id).await
    }
}

impl StoreKeys {
    /// What the administrator's settings name. All checkpoints are taken, whoever signed them.
    pub(crate) fn of_files(
        tenant: &str,
        identity: &[PathBuf],
        recipients: &[PathBuf],
        key_file: &[PathBuf],
    ) -> Self {
        Self {
            tenant: tenant.to_owned(),
            identity: identity.to_vec(),
            recipients: recipients.to_vec(),
            key_file: key_file.to_vec(),
            pin: None,
            trust: Vec::new(),
            allow_unsigned: true,
        }
    }

    /// Opens the store at this URL; makes it if there is none.
    pub(crate) async fn open_or_make(&self, url: &str) -> Result<Store, Error> {
        let backend = self.backend(url)?;
        Ok(Store::open(backend, &self.config()?, StoreOptions::default()).await?)
    }

    /// Opens the store at this URL.
    pub(crate) async fn open(&self, url: &str) -> Result<Store, Error> {
        let backend = self.backend(url)?;
        let keys = self.config()?;
        Ok(Store::open_existing(backend, &keys, StoreOptions::default()).await?)
    }

    fn backend(&self, url: &str) -> Result<Arc<dyn Backend>, Error> {
        let tenant = StoreName::new(&self.tenant).map_err(|_| Error::Argument {
            what: "tenant",
            value: self.tenant.clone(),
            wanted: "1 to 63 lower-case letters, digits and dashes",
        })?;
        // Nothing of it is left when this program ends.
        if url == "memory:" {
            return Err(Error::Argument {
                what: "store",
                value: url.to_owned(),
                wanted: "file:///DIRECTORY, s3://BUCKET/PREFIX or oci://HOST/REPOSITORY",
            });
        }
        let opened = backend::open(url, &tenant);
        Ok(opened.map_err(StoreError::from)?)
    }

    fn config(&self) -> Result<KeyConfig, Error> {
        let mut keys = key_config(&self.identity, &self.recipients, &self.key_file)?;
        if let Some(pin) = &self.pin {
            keys.pin = Some(pin.parse().map_err(|_| Error::Argument {
                what: "data key",
                value: pin.clone(),
                wanted: "16 hexadecimal digits",
            })?);
        }
        Ok(keys)
    }

    fn policy(&self) -> Result<TrustPolicy, Error> {
        let mut policy = TrustPolicy {
            unsigned: self.allow_unsigned,
            ..TrustPolicy::default()
        };
        for key in &self.trust {
            let parsed: Result<PublicKey, _> = match key.parse() {
                Ok(key) => Ok(key),
                Err(_) => text(Path::new(key))?.parse(),
            };
            policy
                .signers
                .push(parsed.map_err(|source| Error::key(key, source))?);
        }
        Ok(policy)
    }

    /// A checkpoint of the store that the policy takes.
    pub(crate) async fn checkpoint(
        &self,
        store: &Store,
        id: &CheckpointId,
    ) -> Result<ManifestObject, Error> {
        Ok(store.checkpoint(id, &self.policy()?).await?)
    }
}

impl StoreKeys {
    /// A checkpoint for a pod: signed by somebody who is trusted, and made for it. `unsigned`: one that nobody signed is
    /// taken as well.
    pub(crate) async fn checkpoint_for(
        &self,
        store: &Store,
        id: &CheckpointId,
        whom: ExpectedBinding,
        unsigned: bool,
    ) -> Result<ManifestObject, Error> {
        let mut policy = self.policy()?;
        if policy.signers.is_empty() && !unsigned {
            return Err(Error::NoTrust {
                checkpoint: id.to_string(),
            });
        }
        policy.unsigned = unsigned;
        policy.binding = Some(whom);
        Ok(store.checkpoint(id, &policy).await?)
    }
}

/// Keys from files.
pub(super) fn key_config(
    identities: &[PathBuf],
    recipients: &[PathBuf],
    key_files: &[PathBuf],
) -> Result<KeyConfig, Error> {
    let mut keys = KeyConfig::new();
    for path in identities {
        let added = keys.add_identities(&text(path)?);
        added.map_err(|source| Error::key(path, source))?;
    }
    for path in recipients {
        let added = keys.add_recipients(&text(path)?);
        added.map_err(|source| Error::key(path, source))?;
    }
    for path in key_files {
        let key = WrappingKey::from_file(&bytes(path)?);
        keys.add_key(key.map_err(|source| Error::key(path, source))?);
    }
    Ok(keys)
}

/// A key to sign with.
pub(crate) fn signer(path: &Path) -> Result<Arc<Signer>, Error> {
    let signer = Signer::from_pem(&text(path)?);
    Ok(Arc::new(signer.map_err(|source| Error::key(path, source))?))
}

fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_KEYS).read_to_end(&mut bytes));
    let path = path.to_owned();
    match read {
        Ok(_) => Ok(bytes),
        Err(source) => Err(Error::Read { path, source }),
    }
}

fn text(path: &Path) -> Result<String, Error> {
    let bytes = bytes(path)?;
    String::from_utf8(bytes).map_err(|_| Error::Read {
        path: path.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not text"),
    })
}
