//! The API of rocferry: kinds of the group `rocferry.dev`, their definitions as Kubernetes takes them, and a
//! reference for people.
//!
//! The rules that one object alone can break are in the schemas: bounds on everything, and CEL where fields depend on
//! each other. What the API server cannot check is decided by the operator and said in conditions.
//!
//! Definitions are written by `cargo xtask crds` into `crds/*.yaml` and `docs/api.md`; a test fails when they are out
//! of date.
#![forbid(unsafe_code)]
#![expect(
    clippy::duplicated_attributes,
    reason = "Columns of one type are told apart by their names, which the lint does not see"
)]

mod definition;
mod reference;
mod schema;
mod words;
mod yaml;

pub mod v1alpha1;

pub use definition::{Definition, definitions};
pub use reference::reference;
pub use yaml::{YamlError, to_yaml};

/// The API group.
pub const GROUP: &str = "rocferry.dev";

/// The one version served.
pub const VERSION: &str = "v1alpha1";
