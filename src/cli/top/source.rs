//! [`Source`]: reads `/admin/streams` from a server.

use std::{ops::ControlFlow, time::Duration};

use bytes::Bytes;
use http::{
    HeaderValue, Request, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use crate::cli::{admin_server::AdminServer, output::Failed};
use toolwire_execution::http::{HttpClient, collected};
use toolwire_pipeline::wire::sse::{Line, Lines, parse_line};

/// How long the server may be silent before the connection counts as lost. It normally sends an event every second.
const SILENCE: Duration = Duration::from_secs(10);

/// Maximum size of an event or error response, in bytes.
const MAX_EVENT: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Source {
    client: HttpClient,
    url: String,
    authorization: Option<HeaderValue>,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    /// Retrying would not help. Contains the error and a hint.
    #[error("{0}")]
    Refused(#[source] Failed, &'static str),
    /// The server is unreachable.
    #[error(transparent)]
    Lost(Failed),
}

/// Hint for a server that is not toolwire or has no admin API.
pub(super) const NOT_ADMIN: &str =
    "`--server URL` is the address of a toolwire with the table [admin] in its configuration";
/// Hint for a key that is not an admin key.
const NO_KEY: &str = "`--admin-key KEY` or TOOLWIRE_ADMIN_KEY is one of the `api_keys` in [admin] of the server's configuration";

/// The events of one connection.
pub(super) struct Snapshots {
    body: Incoming,
    lines: Lines,
    /// The latest snapshot that [`Snapshots::next`] has not returned yet.
    latest: Option<Vec<u8>>,
}

impl Source {
    /// # Errors
    /// The key contains characters that a header value must not contain.
    pub(super) fn new(server: &AdminServer) -> Result<Self, &'static str> {
        let (url, authorization) = (server.url("/admin/streams"), server.authorization()?);
        Ok(Self { client: HttpClient::direct(), url, authorization })
    }

    pub(super) async fn open(&self) -> Result<Snapshots, SourceError> {
        let mut request = Request::get(&self.url)
            .header(ACCEPT, "text/event-stream")
            .body(Bytes::new())
            .map_err(|error| SourceError::Refused(error.into(), NOT_ADMIN))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let asked = timeout(SILENCE, self.client.exchange(request)).await;
        let response = asked.map_err(|_| silent())?.map_err(|error| SourceError::Lost(error.into()))?;
        let status = response.status();
        if status != StatusCode::OK {
            let body = timeout(SILENCE, collected(response, MAX_EVENT)).await.ok().and_then(Result::ok);
            return Err(refusal(status, body.as_ref().map_or(&[], |response| response.body())));
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let why = "the server does not report responses in progress";
            return Err(SourceError::Refused(why.into(), NOT_ADMIN));
        }
        Ok(Snapshots { body: response.into_body(), lines: Lines::new(MAX_EVENT), latest: None })
    }
}

/// Converts an error response to an error.
fn refusal(status: StatusCode, body: &[u8]) -> SourceError {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = json.pointer("/error/message").and_then(Value::as_str).unwrap_or("no reason was given");
    let why = format!("status {}: {message}", status.as_u16()).into();
    match status {
        StatusCode::UNAUTHORIZED => SourceError::Refused(why, NO_KEY),
        _ if status.is_server_error() => SourceError::Lost(why),
        _ => SourceError::Refused(why, NOT_ADMIN),
    }
}

fn silent() -> SourceError {
    SourceError::Lost(format!("the server was silent for {} seconds", SILENCE.as_secs()).into())
}

impl Snapshots {
    /// Waits for the next snapshot. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Value, SourceError> {
        let lost = |why: &str| SourceError::Lost(why.into());
        loop {
            if let Some(data) = self.latest.take() {
                return serde_json::from_slice(&data)
                    .map_err(|_| SourceError::Refused("the server's events are not JSON".into(), NOT_ADMIN));
            }
            let frame = timeout(SILENCE, self.body.frame()).await.map_err(|_| silent())?;
            let frame = frame.ok_or_else(|| lost("the server has ended the connection"))?;
            let frame = frame.map_err(|_| lost("the connection broke off"))?;
            let Ok(bytes) = frame.into_data() else { continue };
            let latest = &mut self.latest;
            let read = self.lines.push(&bytes, |line| {
                if let Line::Field { name: b"data", value } = parse_line(line) {
                    *latest = Some(value.to_owned());
                }
                ControlFlow::Continue(())
            });
            read.map_err(|_| lost("the server's event is too large"))?;
        }
    }
}
