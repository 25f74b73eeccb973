//! How clients find the API server, and who they are.

use crate::keys::Pair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Who a client is.
pub(crate) enum Credentials {
    /// The subject of a certificate.
    Certificate(Pair),
    /// The service account that a token was made for.
    Token(String),
}

/// A kubeconfig, in JSON, which is YAML as well.
pub(crate) fn kubeconfig(server: &str, authority: &str, who: &Credentials) -> String {
    let user = match who {
        Credentials::Certificate(pair) => json!({
            "client-certificate-data": STANDARD.encode(&pair.certificate),
            "client-key-data": STANDARD.encode(&pair.key),
        }),
        Credentials::Token(token) => json!({ "token": token }),
    };
    let config: Value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "tests", "cluster": {
            "server": server,
            "certificate-authority-data": STANDARD.encode(authority),
        } }],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{ "name": "tests", "context": { "cluster": "tests", "user": "user" } }],
        "current-context": "tests",
    });
    config.to_string()
}
