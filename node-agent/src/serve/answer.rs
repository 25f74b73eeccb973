//! `/healthz`, `/readyz`, `/metrics`.

use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::args::Node;
use super::metrics;
use crate::http::Body;

/// What Prometheus wants to read.
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request.
pub(super) async fn answer(node: Arc<Node>, request: Request<Incoming>) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return say(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET alone\n");
    }
    match request.uri().path() {
        "/healthz" => health(node.health.is_stuck()),
        "/readyz" => health(node.health.is_not_ready()),
        "/metrics" => {
            // It reads files.
            let text = tokio::task::spawn_blocking(move || metrics::text(&node)).await;
            match text {
                Ok(Ok(text)) => say(StatusCode::OK, METRICS, text),
                _ => {
                    let text = "The metrics cannot be written\n";
                    say(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
                }
            }
        }
        _ => say(
            StatusCode::NOT_FOUND,
            TEXT,
            "There are /healthz, /readyz and /metrics\n",
        ),
    }
}

fn health(problem: Option<String>) -> Response<Body> {
    match problem {
        None => say(StatusCode::OK, TEXT, "ok\n"),
        Some(problem) => say(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            format!("{problem}\n"),
        ),
    }
}

fn say(status: StatusCode, kind: &'static str, text: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
