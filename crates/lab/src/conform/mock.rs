//! [`Mock`]: the upstream that plays the cases.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_util::{rt::TokioExecutor, server::conn::auto};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::sleep};

use super::{
    case::{Case, Source},
    request::case_of,
    upstream::Frames,
    variant::{Sent, Variant},
};
use crate::upstream::{Api, server};

/// Maximum size of a request, in bytes.
const MAX_REQUEST: usize = 16 << 20;

/// Pause between two pieces, so that the gateway reads them separately.
const REST: Duration = Duration::from_millis(2);

type MockBody = UnsyncBoxBody<Bytes, io::Error>;

/// The upstream. Clones share the cases.
#[derive(Debug, Clone)]
pub struct Mock {
    cases: Arc<HashMap<String, Arc<Case>>>,
}

impl Mock {
    pub fn new(cases: &[Arc<Case>]) -> Self {
        let cases = cases.iter().map(|case| (case.name.clone(), Arc::clone(case)));
        Self { cases: Arc::new(cases.collect()) }
    }

    /// Serves the cases until the future is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let answer = move |request, _| {
            let mock = self.clone();
            async move { mock.answer(request).await }
        };
        server::serve(listener, auto::Builder::new(TokioExecutor::new()), answer).await;
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

/// Creates the response of `case` in the dialect of the requested path.
fn play(case: &Case, api: Api) -> Response<MockBody> {
    match &case.source {
        Source::Generated(_, Variant::Status(status)) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            whole(status, &api.error_body(status.as_u16()))
        }
        Source::Generated(scenario, variant) => {
            let body = variant.body(api, &Frames::of(scenario, api));
            server::stream(200, [(CONTENT_TYPE.as_str(), api.content_type())], played(body))
        }
        Source::Recorded(recorded, variant) => {
            let body = variant.body_of(&recorded.body);
            let headers = recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            server::stream(recorded.status, headers, played(body))
        }
    }
}

/// Creates a body that sends its pieces one by one.
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
    server::json(status, body).map(|body| body.map_err(|never| match never {}).boxed_unsync())
}

fn unknown(message: &str) -> Response<MockBody> {
    whole(StatusCode::BAD_REQUEST, &json!({"error": {"message": message, "type": "invalid_request_error"}}))
}
