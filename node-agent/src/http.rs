//! A small HTTP server: for those who probe frozen pods, and for those who watch the agent.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time on a port. Who asks makes one for each question.
const AT_ONCE: usize = 64;
/// How long a connection may last.
const LONGEST: Duration = Duration::from_secs(60);
/// How long the head of a request may take to come.
const SLOWEST: Duration = Duration::from_secs(10);

/// What is answered.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// Takes all connections that come, for ever, and talks with so many of them at a time.
pub(crate) async fn accept<Talk, Talking>(listener: TcpListener, talk: Talk)
where
    Talk: Fn(TcpStream) -> Talking,
    Talking: Future<Output = ()> + Send + 'static,
{
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
                tracing::debug!(%error, "A connection cannot be taken");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let talking = talk(stream);
        tokio::spawn(async move {
            // Who asks and goes away has its answer.
            let _ = tokio::time::timeout(LONGEST, talking).await;
            drop(place);
        });
    }
}

/// Answers the requests of a connection, HTTP/1 or HTTP/2.
pub(crate) async fn converse<Answer, Answering>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answer: Answer,
) where
    Answer: Fn(Request<Incoming>) -> Answering,
    Answering: Future<Output = Response<Body>> + Send + 'static,
{
    let service = service_fn(|request| {
        let answering = answer(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let mut server = Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOWEST);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(8);
    // Errors are the other side's.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
