//! [`Mock`]: the upstream that plays the cases.

use std::{
    collections::HashMap,
    future::pending,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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
    case::{Ask, Case, Source},
    departures::{Departure, Departures},
    request::{IMAGE, case_of, key},
    upstream::Frames,
    variant::{Sent, Variant},
    whole::asks_for_stream,
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
    departures: Departures,
    /// Whether any request has arrived.
    is_called: Arc<AtomicBool>,
}

impl Mock {
    pub fn new(cases: &[Arc<Case>]) -> Self {
        let cases = cases.iter().map(|case| (case.name.clone(), Arc::clone(case)));
        Self {
            cases: Arc::new(cases.collect()),
            departures: Departures::default(),
            is_called: Arc::default(),
        }
    }

    /// Whether any request has arrived, now or later.
    pub fn is_called(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_called)
    }

    /// The requests that the gateway has closed.
    pub fn departures(&self) -> Departures {
        self.departures.clone()
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
        self.is_called.store(true, Ordering::Relaxed);
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().trim_end_matches('/');
        if parts.method == Method::GET && path.ends_with("/models") {
            let model = json!({"id": "conform", "object": "model", "created": 0, "owned_by": "conform"});
            return whole(StatusCode::OK, &json!({"object": "list", "data": [model]}));
        }
        let api = Api::at(path).or_else(|| path.ends_with(":generateContent").then_some(Api::Gemini));
        let Some(api) = api.filter(|api| Api::ALL.contains(api)) else {
            let message = format!("the conformance mock does not know the path {path}");
            return whole(
                StatusCode::NOT_FOUND,
                &json!({"error": {"message": message, "type": "not_found_error"}}),
            );
        };
        let Ok(body) = Limited::new(body, MAX_REQUEST).collect().await else {
            return unknown("the request broke off or is too large");
        };
        let request = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        let Some((name, client)) = case_of(&request) else {
            return unknown("the request names no conformance case");
        };
        match self.cases.get(&name) {
            Some(case) => self.play(case, api, &client, path, &request),
            None => unknown(&format!("there is no conformance case {name}")),
        }
    }

    /// Creates the response of `case` in the dialect of the requested path.
    fn play(&self, case: &Case, api: Api, client: &str, path: &str, request: &Value) -> Response<MockBody> {
        if case.ask == Ask::Image && !request.to_string().contains(IMAGE) {
            return unknown("the request does not contain the image");
        }
        let of_type = |kind, body, departure| {
            server::stream(200, [(CONTENT_TYPE.as_str(), kind)], played(body, departure))
        };
        match &case.source {
            Source::Generated(_, Variant::Status(status)) => {
                let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                whole(status, &api.error_body(status.as_u16()))
            }
            Source::Generated(scenario, variant) if !asks_for_stream(api, path, request) => {
                let mut body = Bytes::from(super::whole::whole(scenario, api).to_string());
                if let Variant::End(_) = variant {
                    body.truncate(body.len() / 2);
                }
                of_type("application/json", Sent { pieces: vec![body], ..Sent::default() }, None)
            }
            Source::Generated(scenario, variant) => {
                let body = variant.body(api, &Frames::of(scenario, api));
                let leaves = case.ask == Ask::Leave;
                let departure = leaves.then(|| self.departures.watch(key(&case.name, client)));
                of_type(api.content_type(), body, departure)
            }
            Source::Recorded(recorded, variant) => {
                let body = variant.body_of(&recorded.body);
                let headers = recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                server::stream(recorded.status, headers, played(body, None))
            }
        }
    }
}

/// Creates a body that sends its pieces one by one. With a `departure`, it then stays open.
fn played(body: Sent, departure: Option<Departure>) -> MockBody {
    let Sent { pieces, is_dropped, rests } = body;
    let dropped = is_dropped.then(|| Err(io::Error::from(io::ErrorKind::ConnectionAborted)));
    let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).map(Ok).chain(dropped);
    let frames =
        stream::unfold((pieces, false, departure), move |(mut pieces, waits, departure)| async move {
            let Some(piece) = pieces.next() else {
                if departure.is_some() {
                    pending::<()>().await;
                }
                return None;
            };
            if rests && waits {
                sleep(REST).await;
            } else {
                tokio::task::yield_now().await;
            }
            Some((piece.map(Frame::data), (pieces, true, departure)))
        });
    StreamBody::new(frames).boxed_unsync()
}

fn whole(status: StatusCode, body: &Value) -> Response<MockBody> {
    server::json(status, body).map(|body| body.map_err(|never| match never {}).boxed_unsync())
}

fn unknown(message: &str) -> Response<MockBody> {
    whole(StatusCode::BAD_REQUEST, &json!({"error": {"message": message, "type": "invalid_request_error"}}))
}
