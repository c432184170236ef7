//! [`Mock`]: the upstream that plays the cases.

use std::{collections::HashMap, convert::Infallible, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{
    HeaderName, Method, Request, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body::Frame;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use super::{
    case::{Case, Source},
    request::case_of,
    upstream::Frames,
    variant::{Sent, Variant},
};
use crate::upstream::Api;

/// Maximum number of bytes of a request that are read.
const MAX_REQUEST: usize = 16 << 20;

/// Pause before a piece that must be read separately.
const REST: Duration = Duration::from_millis(2);

type MockBody = UnsyncBoxBody<Bytes, io::Error>;

/// The upstream; clones share the cases.
#[derive(Debug, Clone)]
pub struct Mock {
    cases: Arc<HashMap<String, Arc<Case>>>,
}

impl Mock {
    /// A mock that plays these cases.
    pub fn new(cases: &[Arc<Case>]) -> Self {
        let cases = cases.iter().map(|case| (case.name.clone(), Arc::clone(case)));
        Self { cases: Arc::new(cases.collect()) }
    }

    /// Serves the cases until the future is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    connections.spawn(self.clone().connection(socket));
                }
                // Most likely too many open files, which is temporary.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept");
                    sleep(Duration::from_millis(10)).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    async fn connection(self, socket: TcpStream) {
        // Without this, Nagle's algorithm would join small pieces.
        let _ = socket.set_nodelay(true);
        let service = hyper::service::service_fn(move |request| {
            let mock = self.clone();
            async move { Ok::<_, Infallible>(mock.answer(request).await) }
        });
        // A client that disconnects is not reported.
        let _ =
            auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<MockBody> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().trim_end_matches('/');
        if parts.method == Method::GET && path.ends_with("/models") {
            let model = json!({"id": "conform", "object": "model", "created": 0, "owned_by": "conform"});
            return whole(StatusCode::OK, &json!({"object": "list", "data": [model]}));
        }
        let Some(api) = Api::at(path).filter(|api| Api::ALL.contains(api)) else {
            let message = format!("the conformance mock does not know the path {path}");
            return whole(
                StatusCode::NOT_FOUND,
                &json!({"error": {"message": message, "type": "not_found_error"}}),
            );
        };
        let Ok(body) = Limited::new(body, MAX_REQUEST).collect().await else {
            return unknown("the request broke off or is too large");
        };
        let Some(name) = case_of(&body.to_bytes()) else {
            return unknown("the request names no conformance case");
        };
        match self.cases.get(&name) {
            Some(case) => play(case, api),
            None => unknown(&format!("there is no conformance case {name}")),
        }
    }
}

/// Answers in the dialect of the path.
fn play(case: &Case, api: Api) -> Response<MockBody> {
    match &case.source {
        Source::Generated(_, Variant::Status(status)) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            whole(status, &api.error_body(status.as_u16()))
        }
        Source::Generated(scenario, variant) => {
            let body = variant.body(api, &Frames::of(scenario, api));
            respond(StatusCode::OK, &[(CONTENT_TYPE.as_str(), api.content_type())], body)
        }
        Source::Recorded(recorded, variant) => {
            let body = variant.body_of(&recorded.body);
            let status = StatusCode::from_u16(recorded.status).unwrap_or(StatusCode::BAD_GATEWAY);
            let headers: Vec<_> =
                recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            respond(status, &headers, body)
        }
    }
}

fn respond(status: StatusCode, headers: &[(&str, &str)], body: Sent) -> Response<MockBody> {
    let mut response = Response::new(played(body));
    *response.status_mut() = status;
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
            response.headers_mut().append(name, value);
        }
    }
    let fixed = http::HeaderValue::from_static;
    response.headers_mut().entry(CONTENT_TYPE).or_insert(fixed("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, fixed("no-cache"));
    response
}

/// A body that sends its pieces one by one.
fn played(body: Sent) -> MockBody {
    let Sent { pieces, is_dropped, rests } = body;
    let dropped = is_dropped.then(|| Err(io::Error::from(io::ErrorKind::ConnectionAborted)));
    let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).map(Ok).chain(dropped);
    let frames = stream::unfold((pieces, false), move |(mut pieces, waits)| async move {
        let piece: Result<Bytes, io::Error> = pieces.next()?;
        if rests && waits {
            sleep(REST).await;
        } else {
            tokio::task::yield_now().await;
        }
        Some((piece.map(Frame::data), (pieces, true)))
    });
    StreamBody::new(frames).boxed_unsync()
}

fn whole(status: StatusCode, body: &Value) -> Response<MockBody> {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn unknown(message: &str) -> Response<MockBody> {
    whole(StatusCode::BAD_REQUEST, &json!({"error": {"message": message, "type": "invalid_request_error"}}))
}
