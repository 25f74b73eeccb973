//! Objects held against the CEL rules of their definitions, as the API server does it.

use kube::CustomResourceExt;
use kube::core::cel;
use serde::Serialize;

fn expect_error(result: Result<(), cel::ValidationErrors>, message: &str) {
    let errors = result.expect_err("is accepted").to_string();
    assert!(errors.contains(message), "{errors}");
}

/// May be created.
pub(crate) fn accepts<T: CustomResourceExt + Serialize>(object: &T) {
    cel::validate_cel(object).expect("is refused");
}

/// May not be created, with this message.
pub(crate) fn refuses<T: CustomResourceExt + Serialize>(object: &T, message: &str) {
    expect_error(cel::validate_cel(object), message);
}

/// The change is allowed.
pub(crate) fn accepts_update<T: CustomResourceExt + Serialize>(new: &T, old: &T) {
    cel::validate_cel_update(new, old).expect("is refused");
}

/// The change is not allowed, with this message.
pub(crate) fn refuses_update<T: CustomResourceExt + Serialize>(new: &T, old: &T, message: &str) {
    expect_error(cel::validate_cel_update(new, old), message);
}
