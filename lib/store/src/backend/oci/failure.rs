//! What a registry's answer means for a store.

use std::error::Error;
use std::time::Duration;

use oci_client::errors::{OciEnvelope, OciErrorCode};

use crate::backend::BackendError;
use crate::chain::chain;

/// Why something failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("The registry answers {status}: {reason}")]
    Answer {
        status: u16,
        reason: String,
        /// It says that a blob is missing.
        unknown_blob: bool,
    },
    #[error(
        "The registry does not allow deleting (answer {0}); docker-registry needs storage.delete.enabled"
    )]
    NoDelete(u16),
    #[error("Its manifest in the registry was not written by rocferry")]
    Foreign,
    #[error("Its manifest is in the registry, and its blob is not")]
    NoBlob,
    #[error("The registry's answer says nothing of {0}")]
    Missing(&'static str),
    #[error("The registry's answer is larger than {0} bytes")]
    Large(usize),
    #[error("The list of tags has more than {0} pages")]
    Pages(usize),
    #[error("Got {got} of {wanted} bytes")]
    Length { wanted: u64, got: u64 },
    #[error("The content has another hash than its manifest says")]
    Hash,
    #[error("The registry has lost the upload, and no copy is left to send again")]
    Lost,
    #[error("The registry takes no chunks, and there is no room for a temporary file")]
    NoCopy,
    #[error("{0} bytes are more than a registry takes")]
    Size(u64),
    #[error("{0} packs are more than a manifest in a registry can name")]
    Packs(usize),
    #[error("An earlier write failed")]
    Broken,
    #[error("The registry asks for {0}, which is not supported")]
    Scheme(String),
    #[error("The token service is asked without TLS, the registry is not")]
    PlainRealm,
    #[error("There are no credentials for {0}")]
    NoCredentials(String),
}

/// The error for an answer that is none of those expected.
pub(super) fn answer(
    operation: &'static str,
    object: &str,
    status: u16,
    retry_after: Option<Duration>,
    body: &[u8],
) -> BackendError {
    let object = object.to_owned();
    let envelope: Option<OciEnvelope> = serde_json::from_slice(body).ok();
    let errors = envelope.map(|envelope| envelope.errors).unwrap_or_default();
    let raw = String::from_utf8_lossy(body).to_lowercase();
    let reason = match errors.as_slice() {
        [] => raw.chars().take(200).collect(),
        errors => {
            let texts = errors.iter().map(|error| {
                let code = serde_json::to_string(&error.code).unwrap_or_default();
                format!("{} {}", code.trim_matches('"'), error.message)
            });
            texts.collect::<Vec<_>>().join("; ")
        }
    };
    let has = |code: fn(&OciErrorCode) -> bool| errors.iter().any(|error| code(&error.code));
    let unknown_blob = has(|code| {
        matches!(
            code,
            OciErrorCode::BlobUnknown | OciErrorCode::ManifestBlobUnknown
        )
    });
    let busy = has(|code| matches!(code, OciErrorCode::Toomanyrequests));
    let source = Box::new(Refused::Answer {
        status,
        reason,
        unknown_blob,
    });
    // docker-registry passes on the number of the system's error, ENOSPC or EDQUOT, and little more.
    let full = ["no space left", "quota", "\"err\":28", "\"err\":122"];
    let full = full.iter().any(|text| raw.contains(text));
    match status {
        507 => BackendError::Full { object, source },
        400..=599 if full => BackendError::Full { object, source },
        408 | 425 | 429 | 500 | 502..=504 => BackendError::Unavailable {
            operation,
            object,
            retry_after,
            source,
        },
        _ if busy => BackendError::Unavailable {
            operation,
            object,
            retry_after,
            source,
        },
        401 | 403 => BackendError::Denied {
            operation,
            object,
            source,
        },
        _ => BackendError::Failed {
            operation,
            object,
            source,
        },
    }
}

/// The error for a request that got no answer, or not all of it.
pub(super) fn transport(
    operation: &'static str,
    object: &str,
    error: reqwest::Error,
) -> BackendError {
    // The address may hold a signature of a storage service.
    let error = error.without_url();
    let object = object.to_owned();
    if error.is_builder()
        || error.is_redirect()
        || chain(&error).to_lowercase().contains("certificate")
    {
        return BackendError::failed(operation, object, error);
    }
    BackendError::Unavailable {
        operation,
        object,
        retry_after: None,
        source: Box::new(error),
    }
}

fn refused(error: &BackendError) -> Option<&Refused> {
    error.source()?.downcast_ref()
}

/// A manifest could not be written since a blob that it names is not there.
pub(super) fn is_unknown_blob(error: &BackendError) -> bool {
    matches!(
        refused(error),
        Some(Refused::Answer {
            unknown_blob: true,
            ..
        })
    )
}

/// The tag is not ours.
pub(super) fn is_foreign(error: &BackendError) -> bool {
    matches!(refused(error), Some(Refused::Foreign))
}

/// The answer's status.
pub(super) fn status(error: &BackendError) -> Option<u16> {
    match refused(error)? {
        Refused::Answer { status, .. } => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> BackendError {
        let wait = Some(Duration::from_secs(5));
        answer("Writing", "packs/x", status, wait, body.as_bytes())
    }

    #[test]
    fn answers_have_classes() {
        type B = BackendError;
        let code =
            |code: &str| format!("{{\"errors\":[{{\"code\":\"{code}\",\"message\":\"m\"}}]}}");
        assert!(matches!(of(401, &code("UNAUTHORIZED")), B::Denied { .. }));
        assert!(matches!(of(403, "no json"), B::Denied { .. }));
        assert!(matches!(
            of(403, &code("TOOMANYREQUESTS")),
            B::Unavailable { .. }
        ));
        for status in [429, 500, 503] {
            assert!(
                matches!(
                    of(status, ""),
                    B::Unavailable {
                        retry_after: Some(_),
                        ..
                    }
                ),
                "{status}"
            );
        }
        let full = r#"{"errors":[{"code":"UNKNOWN","message":"unknown error",
            "detail":{"DriverName":"filesystem","Enclosed":{"Op":"write","Err":28}}}]}"#;
        assert!(matches!(of(500, &full.replace(' ', "")), B::Full { .. }));
        assert!(matches!(
            of(403, "adding 5 MiB exceeds the quota"),
            B::Full { .. }
        ));
        assert!(matches!(of(507, ""), B::Full { .. }));
        let unknown = of(400, &code("MANIFEST_BLOB_UNKNOWN"));
        assert!(is_unknown_blob(&unknown) && unknown.is_permanent());
        assert_eq!(status(&unknown), Some(400));
        let source = unknown.source().expect("source").to_string();
        assert_eq!(source, "The registry answers 400: MANIFEST_BLOB_UNKNOWN m");
    }
}
