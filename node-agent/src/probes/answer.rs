//! One request, one answer.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Request, Response, StatusCode};

use super::grpc;
use super::port::Port;
use crate::http::Body;

/// Longest request that is read. Health requests are a name.
const LONGEST: usize = 4 << 10;
/// How long a request may take to come.
const SLOWEST: Duration = Duration::from_secs(10);

/// The answer to a probe: success if it is one that means that the container lives.
pub(super) async fn answer(port: &Port, request: Request<Incoming>) -> Response<Body> {
    let content = request.headers().get(CONTENT_TYPE);
    let grpc = content.is_some_and(|content| content.as_bytes().starts_with(b"application/grpc"));
    if grpc && request.uri().path() == grpc::METHOD {
        let body = Limited::new(request.into_body(), LONGEST).collect();
        let body = tokio::time::timeout(SLOWEST, body).await;
        let body = body.ok().and_then(Result::ok);
        let service = body.and_then(|body| grpc::service(&body.to_bytes()));
        let alive = service.is_some_and(|service| port.services.contains(&service));
        return health(alive);
    }
    let path = request.uri().path_and_query();
    let alive = path.is_some_and(|path| port.paths.contains(path.as_str()));
    let mut response = Response::new(Full::from("frozen for a checkpoint\n").boxed());
    *response.status_mut() = match alive {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    response
}

fn health(alive: bool) -> Response<Body> {
    let message = Bytes::copy_from_slice(&grpc::status(alive));
    let mut end = HeaderMap::new();
    end.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Frame::data(message), Frame::trailers(end)];
    let body = StreamBody::new(futures_util::stream::iter(frames.map(Ok)));
    let mut response = Response::new(BodyExt::boxed(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
