//! Connections of probes.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::answer::answer;
use super::port::Port;
use crate::http;

/// First byte of a connection with TLS.
const HANDSHAKE: u8 = 22;

/// Answers all that come, for ever.
pub(super) async fn serve(listener: TcpListener, port: Port, tls: Option<TlsAcceptor>) {
    let port = Arc::new(port);
    http::accept(listener, |stream| {
        talk(stream, Arc::clone(&port), tls.clone())
    })
    .await;
}

async fn talk(stream: TcpStream, port: Arc<Port>, tls: Option<TlsAcceptor>) {
    let mut first = [0];
    // A TCP probe sends nothing and is content.
    let read = stream.peek(&mut first).await;
    if !matches!(read, Ok(1..)) {
        return;
    }
    match tls.filter(|_| port.tls && first == [HANDSHAKE]) {
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                converse(stream, &port).await;
            }
        }
        None => converse(stream, &port).await,
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, port: &Arc<Port>) {
    http::converse(stream, |request| {
        let port = Arc::clone(port);
        async move { answer(&port, request).await }
    })
    .await;
}
