//! What a prober gets.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::grpc::METHOD;
use super::listen::serve;
use super::port::Port;
use super::tls::acceptor;

/// Listens as for a port of a pod. Its address, and the certificate that it has.
async fn port() -> (
    std::net::SocketAddr,
    rustls::pki_types::CertificateDer<'static>,
) {
    let port = Port {
        paths: ["/healthz?full=1".to_owned()].into(),
        services: ["worker".to_owned()].into(),
        tls: true,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let address = listener.local_addr().expect("address");
    let (tls, certificate) = acceptor().expect("certificate");
    tokio::spawn(serve(listener, port, Some(tls)));
    (address, certificate)
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
) -> StatusCode {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "pod");
    let request = request.body(Full::<Bytes>::default()).expect("request");
    let response = sender.send_request(request).await.expect("an answer");
    response.status()
}

async fn connect(address: std::net::SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("connects")
}

/// The status that gRPC's health protocol answers for a service.
async fn health(address: std::net::SocketAddr, service: &str) -> u8 {
    let stream = TokioIo::new(connect(address).await);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream)
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    let mut message = vec![0, 0, 0, 0];
    if service.is_empty() {
        message.push(0);
    } else {
        let length = u8::try_from(service.len()).expect("short");
        message.extend([length + 2, 0x0a, length]);
        message.extend(service.as_bytes());
    }
    let request =
        Request::post(format!("http://pod{METHOD}")).header("content-type", "application/grpc");
    let request = request
        .body(Full::new(Bytes::from(message)))
        .expect("request");
    let response = sender.send_request(request).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.expect("a body");
    let end = body.trailers().and_then(|end| end.get("grpc-status"));
    assert_eq!(end.expect("a status"), "0");
    let bytes = body.to_bytes();
    assert_eq!(bytes[..6], [0, 0, 0, 0, 2, 8]);
    bytes[6]
}

#[tokio::test]
async fn liveness_succeeds_and_all_else_fails() {
    let (address, certificate) = port().await;
    assert_eq!(get(connect(address).await, "/healthz?full=1").await, 200);
    for path in ["/healthz", "/ready", "/"] {
        assert_eq!(get(connect(address).await, path).await, 503, "{path}");
    }
    assert_eq!(health(address, "worker").await, 1);
    for service in ["", "ready"] {
        assert_eq!(health(address, service).await, 2, "{service:?}");
    }
    // TLS, on the same port.
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("frozen").expect("name");
    let stream = connector
        .connect(name, connect(address).await)
        .await
        .expect("TLS");
    assert_eq!(get(stream, "/healthz?full=1").await, 200);
}

#[tokio::test]
async fn more_askers_than_places_are_all_answered() {
    let (address, _) = port().await;
    // Who asks nothing takes a place until he goes.
    let idle: Vec<TcpStream> =
        futures_util::future::join_all((0..60).map(|_| connect(address))).await;
    for _ in 0..10 {
        assert_eq!(get(connect(address).await, "/healthz?full=1").await, 200);
    }
    drop(idle);
    // A TCP probe: connects and goes.
    for _ in 0..100 {
        drop(connect(address).await);
    }
    assert_eq!(get(connect(address).await, "/healthz?full=1").await, 200);
    // Nonsense ends the connection and nothing else.
    let mut stream = connect(address).await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, &[0xff; 100])
        .await
        .expect("sent");
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    assert_eq!(get(connect(address).await, "/healthz?full=1").await, 200);
}
