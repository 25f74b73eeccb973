//! Whose manifests are taken, and for whom.

use rocferry_image::manifest::Binding;
use thiserror::Error;

use super::PublicKey;

/// What a manifest must be to be used. The default takes what anybody signed or nobody did, for anybody: what
/// a store without signatures is read with by people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustPolicy {
    /// Keys of which one must have signed. Empty: no signature is needed (but one that is there must be right).
    pub signers: Vec<PublicKey>,
    /// Whether one that is not signed at all is taken although there are signers.
    pub unsigned: bool,
    /// Whom it must be made for; `None`: that does not matter.
    pub binding: Option<ExpectedBinding>,
}

/// Whom a checkpoint is to be restored for. A part that is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedBinding {
    /// Name of the namespace.
    pub namespace: Option<String>,
    /// UID of the namespace.
    pub namespace_uid: Option<String>,
    /// Name of the pod.
    pub pod: Option<String>,
    /// Name of the container.
    pub container: Option<String>,
    /// Whether one that is made for anybody is taken.
    pub free: bool,
    /// Whether one that is made for somebody else is taken, since whoever it belongs to allowed it.
    pub foreign: bool,
}

/// A manifest that is in order, but not to be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrustError {
    /// Nobody signed it.
    #[error("It is not signed; a signature by {expected} is expected")]
    Unsigned {
        /// Keys that would do.
        expected: String,
    },
    /// Somebody else signed it.
    #[error("It is signed by {found}; a signature by {expected} is expected")]
    Signer {
        /// Who signed.
        found: PublicKey,
        /// Keys that would do.
        expected: String,
    },
    /// It is made for anybody.
    #[error("It is bound to nobody; one for {expected} is expected")]
    Free {
        /// Whom it should be made for.
        expected: String,
    },
    /// It is made for somebody else.
    #[error("It is bound to {part} {found}; one for {part} {expected} is expected")]
    Foreign {
        /// What differs.
        part: &'static str,
        /// Whom it is made for.
        found: String,
        /// Whom it should be made for.
        expected: String,
    },
}

impl TrustPolicy {
    /// Whether a manifest that `signer` signed (correctly) may be used.
    ///
    /// # Errors
    /// [`TrustError`].
    pub fn check_signer(&self, signer: Option<PublicKey>) -> Result<(), TrustError> {
        let expected = || {
            let keys: Vec<_> = self.signers.iter().map(ToString::to_string).collect();
            keys.join(" or ")
        };
        match signer {
            _ if self.signers.is_empty() => Ok(()),
            Some(found) if self.signers.contains(&found) => Ok(()),
            Some(found) => Err(TrustError::Signer {
                found,
                expected: expected(),
            }),
            None if self.unsigned => Ok(()),
            None => Err(TrustError::Unsigned {
                expected: expected(),
            }),
        }
    }

    /// Whether a manifest that is bound like this may be used.
    ///
    /// # Errors
    /// [`TrustError`].
    pub fn check_binding(&self, binding: &Binding) -> Result<(), TrustError> {
        match &self.binding {
            Some(expected) => expected.check(binding),
            None => Ok(()),
        }
    }
}

impl ExpectedBinding {
    fn check(&self, binding: &Binding) -> Result<(), TrustError> {
        let Binding::Pod {
            namespace,
            namespace_uid,
            pod,
            container,
        } = binding
        else {
            return if self.free {
                Ok(())
            } else {
                let expected = self.describe();
                Err(TrustError::Free { expected })
            };
        };
        if self.foreign {
            return Ok(());
        }
        // The UID first: a namespace that was deleted and made again has the same name.
        let parts = [
            ("namespace UID", &self.namespace_uid, namespace_uid),
            ("namespace", &self.namespace, namespace),
            ("pod", &self.pod, pod),
            ("container", &self.container, container),
        ];
        for (part, expected, found) in parts {
            if let Some(expected) = expected
                && expected != found
            {
                return Err(TrustError::Foreign {
                    part,
                    found: found.clone(),
                    expected: expected.clone(),
                });
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let parts = [
            ("namespace", &self.namespace),
            ("namespace UID", &self.namespace_uid),
            ("pod", &self.pod),
            ("container", &self.container),
        ];
        let known = parts
            .into_iter()
            .filter_map(|(part, value)| Some(format!("{part} {}", value.as_ref()?)));
        let known: Vec<_> = known.collect();
        match known.is_empty() {
            true => "somebody".to_owned(),
            false => known.join(", "),
        }
    }
}
