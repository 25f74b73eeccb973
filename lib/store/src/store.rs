//! A store that is open.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocferry_image::manifest::DataKeyId;

use crate::backend::{Backend, RetryPolicy};
use crate::envelope::StoreDescription;
use crate::seal::{KeyConfig, Keyring, Keys, SealError, describe, open_store};

mod error;
mod small;

pub use error::StoreError;

/// How a store is used. The default fits all but tests.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How long a lease counts after it was renewed the last time.
    pub lease: Duration,
    /// How far clocks of machines that use the store may be apart.
    pub skew: Duration,
    /// How packs are sent again whose sending was broken off.
    pub retry: RetryPolicy,
    /// Who this is, for people who look at leases: a node, a process.
    pub holder: String,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15 * 60),
            skew: Duration::from_secs(5 * 60),
            retry: RetryPolicy::default(),
            holder: format!("process {}", std::process::id()),
        }
    }
}

/// A store of one tenant, and its keys. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    description: StoreDescription,
    keyring: Keyring,
    options: StoreOptions,
}

impl Store {
    /// Opens the store that `backend` keeps; makes it if there is none. It is sealed if and only if `keys` is
    /// not empty.
    ///
    /// # Errors
    /// [`StoreError::Seal`].
    pub async fn open(
        backend: Arc<dyn Backend>,
        keys: &KeyConfig,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let (description, keyring) = open_store(&*backend, keys, now_ms()).await?;
        let shared = Arc::new(Shared {
            backend,
            description,
            keyring,
            options,
        });
        Ok(Self { shared })
    }

    /// Opens the store that `backend` keeps, and makes none.
    ///
    /// # Errors
    /// [`StoreError::NoStore`], [`StoreError::Seal`].
    pub async fn open_existing(
        backend: Arc<dyn Backend>,
        keys: &KeyConfig,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        match describe(&*backend).await? {
            Some(_) => Self::open(backend, keys, options).await,
            None => Err(StoreError::NoStore),
        }
    }

    /// Makes a data key for what is stored from now on, wrapped for what `keys` give. It is used by whoever
    /// opens the store afterwards, and not through this handle.
    ///
    /// # Errors
    /// [`SealError::StoreNotSealed`], [`SealError::NoRecipients`]...
    pub async fn rotate(&self, keys: &KeyConfig, now_ms: u64) -> Result<DataKeyId, StoreError> {
        let (_, mut keyring) = open_store(&**self.backend(), keys, now_ms).await?;
        Ok(keyring.rotate(&**self.backend(), keys, now_ms).await?)
    }

    /// Where its objects are kept.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.backend
    }

    /// What it says of itself.
    #[must_use]
    pub fn description(&self) -> &StoreDescription {
        &self.shared.description
    }

    /// Its keys.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        &self.shared.keyring
    }

    /// How it is used.
    #[must_use]
    pub fn options(&self) -> &StoreOptions {
        &self.shared.options
    }

    /// The keys that something was protected by.
    pub(crate) fn keys(&self, id: Option<DataKeyId>) -> Result<Arc<Keys>, SealError> {
        self.keyring().get(id).map(Arc::clone)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("backend", self.backend())
            .field("keyring", self.keyring())
            .finish_non_exhaustive()
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    milliseconds(SystemTime::now())
}

/// Milliseconds since 1970; 0 for anything before.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
