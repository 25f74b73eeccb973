//! A certificate of our own: the kubelet does not look whose it is.

use std::sync::Arc;

use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::error::ProbeError;

/// Speaks TLS with a new certificate, which comes with it.
pub(super) fn acceptor() -> Result<(TlsAcceptor, CertificateDer<'static>), ProbeError> {
    let failed = |reason: String| ProbeError::Certificate { reason };
    let names = vec!["frozen".to_owned()];
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).map_err(|error| failed(error.to_string()))?;
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .map_err(|error| failed(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), cert.into()))
}
