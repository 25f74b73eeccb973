//! Connections of probes.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::answer::answer;
use super::port::Port;

/// Connections at a time on a port. The kubelet makes one for each probe.
const AT_ONCE: usize = 64;
/// How long a connection may last.
const LONGEST: Duration = Duration::from_secs(60);
/// First byte of a connection with TLS.
const HANDSHAKE: u8 = 22;

/// Answers all that come, for ever.
pub(super) async fn serve(listener: TcpListener, port: Port, tls: Option<TlsAcceptor>) {
    let port = Arc::new(port);
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        // Never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // One that has gone again, or no descriptors for a while.
                tracing::debug!(%error, "A probe's connection cannot be taken");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let (port, tls) = (Arc::clone(&port), tls.clone());
        tokio::spawn(async move {
            let talk = tokio::time::timeout(LONGEST, talk(stream, &port, tls));
            // Who asks and goes away has its answer.
            let _ = talk.await;
            drop(place);
        });
    }
}

async fn talk(stream: TcpStream, port: &Arc<Port>, tls: Option<TlsAcceptor>) {
    let mut first = [0];
    // A TCP probe sends nothing and is content.
    let read = stream.peek(&mut first).await;
    if !matches!(read, Ok(1..)) {
        return;
    }
    match tls.filter(|_| port.tls && first == [HANDSHAKE]) {
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                converse(stream, port).await;
            }
        }
        None => converse(stream, port).await,
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, port: &Arc<Port>) {
    let service = service_fn(|request| {
        let port = Arc::clone(port);
        async move { answer(&port, request).await }
    });
    let mut server = Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(10));
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(8);
    // Errors are the other side's.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
