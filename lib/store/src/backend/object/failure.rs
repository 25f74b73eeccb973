//! What an S3 server's answer means for a store.

use std::error::Error;
use std::time::Duration;

use object_store::client::HttpError;

use crate::Key;
use crate::backend::BackendError;
use crate::chain::chain;

/// Why a request failed, as far as the server says.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("The server answers {status} {code}: {message}")]
    Answer {
        status: u16,
        code: String,
        message: String,
        retry_after: Option<Duration>,
    },
    #[error("Got {got} of {wanted} bytes")]
    Length { wanted: usize, got: usize },
    #[error("An upload can have {0} parts at most")]
    Parts(usize),
    #[error("An earlier part failed")]
    Broken,
}

/// The error for the caller. `key` is the object that may be missing or be there already.
pub(super) fn failure(
    operation: &'static str,
    key: Option<&Key>,
    object: String,
    error: object_store::Error,
) -> BackendError {
    use object_store::Error as E;
    let class = match (find::<Refused>(&error), &error) {
        (Some(refused), _) => classify(refused),
        (None, E::NotFound { .. }) => Class::NotFound,
        (None, E::AlreadyExists { .. } | E::Precondition { .. }) => Class::Exists,
        (None, E::PermissionDenied { .. } | E::Unauthenticated { .. }) => Class::Denied,
        (None, _) => match find::<HttpError>(&error) {
            // Neither is a server's certificate any better next time.
            Some(http) if !chain(http).to_lowercase().contains("certificate") => {
                Class::Unavailable(None)
            }
            _ => Class::Failed,
        },
    };
    let source = Box::new(error);
    match (class, key) {
        (Class::NotFound, Some(key)) => BackendError::NotFound { key: key.clone() },
        (Class::Exists, Some(key)) => BackendError::Exists { key: key.clone() },
        (Class::Denied, _) => BackendError::Denied {
            operation,
            object,
            source,
        },
        (Class::Full, _) => BackendError::Full { object, source },
        (Class::Unavailable(retry_after), _) => BackendError::Unavailable {
            operation,
            object,
            retry_after,
            source,
        },
        (Class::NotFound | Class::Exists | Class::Failed, _) => BackendError::Failed {
            operation,
            object,
            source,
        },
    }
}

/// A server that says that it has never heard of conditional writes.
pub(super) fn is_unknown_condition(error: &BackendError) -> bool {
    answer(error).is_some_and(|(status, code)| {
        status == 501 || code == "NotImplemented" || code == "InvalidArgument"
    })
}

/// An upload that has ended, one way or the other.
pub(super) fn is_no_such_upload(error: &BackendError) -> bool {
    matches!(error, BackendError::NotFound { .. })
        || answer(error).is_some_and(|(_, code)| code == "NoSuchUpload")
}

/// A piece was asked for that the object does not have.
pub(super) fn is_out_of_range(error: &BackendError) -> bool {
    answer(error).is_some_and(|(status, _)| status == 416)
}

fn answer(error: &BackendError) -> Option<(u16, &str)> {
    match find::<Refused>(error)? {
        Refused::Answer { status, code, .. } => Some((*status, code)),
        _ => None,
    }
}

enum Class {
    NotFound,
    Exists,
    Denied,
    Full,
    Unavailable(Option<Duration>),
    Failed,
}

fn classify(refused: &Refused) -> Class {
    let Refused::Answer {
        status,
        code,
        message,
        retry_after,
    } = refused
    else {
        return Class::Failed;
    };
    let message = message.to_lowercase();
    match (code.as_str(), status) {
        ("NoSuchKey" | "NoSuchVersion" | "NotFound", _) => Class::NotFound,
        ("NoSuchBucket" | "NoSuchUpload", _) => Class::Failed,
        // Those of several makes of servers.
        (
            "QuotaExceeded"
            | "XMinioStorageFull"
            | "InsufficientStorage"
            | "XMinioAdminBucketQuotaExceeded",
            _,
        )
        | (_, 507) => Class::Full,
        _ if message.contains("no space left on device") => Class::Full,
        // Not every server has a status for these that says the same.
        (
            "AccessDenied"
            | "AccountProblem"
            | "AllAccessDisabled"
            | "ExpiredToken"
            | "InvalidAccessKeyId"
            | "InvalidToken"
            | "SignatureDoesNotMatch"
            | "TokenRefreshRequired"
            // versitygw's for an unknown access key, with status 404.
            | "XAdminUserNotFound",
            _,
        ) => Class::Denied,
        (
            "SlowDown"
            | "InternalError"
            | "ServiceUnavailable"
            | "RequestTimeout"
            | "OperationAborted"
            | "ConditionalRequestConflict"
            | "TooManyRequests",
            _,
        )
        | (_, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504) => Class::Unavailable(*retry_after),
        (_, 401 | 403) => Class::Denied,
        // Of `HEAD`. Any other code means that something else is missing.
        ("", 404) => Class::NotFound,
        (_, 304 | 412) => Class::Exists,
        _ => Class::Failed,
    }
}

/// The first error of this type in the chain of sources.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::client::HttpErrorKind;

    fn of(status: u16, code: &str, message: &str) -> BackendError {
        let refused = Refused::Answer {
            status,
            code: code.to_owned(),
            message: message.to_owned(),
            retry_after: Some(Duration::from_secs(9)),
        };
        let http = HttpError::new(HttpErrorKind::Unknown, refused);
        let error = object_store::Error::Generic {
            store: "S3",
            source: Box::new(http),
        };
        failure("Writing", Some(&Key::Store), "store".to_owned(), error)
    }

    #[test]
    fn answers_have_classes() {
        type B = BackendError;
        assert!(matches!(of(404, "NoSuchKey", ""), B::NotFound { .. }));
        assert!(matches!(of(404, "", ""), B::NotFound { .. }), "of HEAD");
        assert!(matches!(of(404, "NoSuchBucket", ""), B::Failed { .. }));
        assert!(matches!(of(404, "NoSuchTenant", ""), B::Failed { .. }));
        assert!(matches!(
            of(412, "PreconditionFailed", ""),
            B::Exists { .. }
        ));
        assert!(matches!(of(403, "AccessDenied", ""), B::Denied { .. }));
        assert!(matches!(of(401, "", ""), B::Denied { .. }));
        let unknown_key = of(404, "XAdminUserNotFound", "");
        assert!(matches!(unknown_key, B::Denied { .. }), "of versitygw");
        assert!(matches!(of(400, "ExpiredToken", ""), B::Denied { .. }));
        assert!(is_out_of_range(&of(416, "InvalidRange", "")));
        assert!(matches!(of(507, "", ""), B::Full { .. }));
        assert!(matches!(of(403, "QuotaExceeded", ""), B::Full { .. }));
        let text = "write: No space left on device";
        assert!(matches!(of(500, "InternalError", text), B::Full { .. }));
        assert!(matches!(of(400, "InvalidRequest", ""), B::Failed { .. }));
        assert!(matches!(of(501, "NotImplemented", ""), B::Failed { .. }));
        assert!(is_unknown_condition(&of(501, "NotImplemented", "")));
        assert!(!is_unknown_condition(&of(400, "InvalidRequest", "")));
        assert!(is_no_such_upload(&of(404, "NoSuchUpload", "")));
        for (status, code) in [
            (503, "SlowDown"),
            (200, "InternalError"),
            (400, "RequestTimeout"),
            (409, "ConditionalRequestConflict"),
            (429, ""),
            (502, ""),
        ] {
            let error = of(status, code, "");
            assert!(
                matches!(&error, B::Unavailable { retry_after: Some(wait), .. }
                    if wait.as_secs() == 9),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_connection_that_fails_is_temporary_and_a_certificate_is_not() {
        let of = |text: &str| {
            let http = HttpError::new(HttpErrorKind::Connect, std::io::Error::other(text));
            let error = object_store::Error::Generic {
                store: "S3",
                source: Box::new(http),
            };
            failure("Listing", None, "packs".to_owned(), error)
        };
        assert!(!of("connection refused").is_permanent());
        assert!(of("invalid peer certificate: UnknownIssuer").is_permanent());
    }
}
