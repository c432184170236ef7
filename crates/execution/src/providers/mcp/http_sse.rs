//! [`HttpSse`]: an MCP server with a URL, over the transport of protocol version 2024-11-05 (HTTP with SSE).
//!
//! ```text
//! GET url ─▶ a stream of events: first `endpoint`, the URL for messages, then the server's messages
//! POST endpoint ◀─ each message of toolwire; the response comes over the stream
//! ```
//!
//! The endpoint must have the origin of `url`, because requests contain the key.

use std::{
    collections::{HashSet, VecDeque},
    ops::ControlFlow,
    sync::Arc,
};

use bytes::Bytes;
use http::{
    Method, Uri,
    header::{ACCEPT, CONTENT_TYPE},
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};
use toolwire_pipeline::wire::sse::{Frame, Frames};
use url::Url;

use super::{
    http::{EVENT_STREAM, Failure, HttpServer, JSON, is_of_type, unexpected},
    message,
};
use crate::http::HttpError;

/// A connection to the server. Dropping it closes the stream.
#[derive(Debug)]
pub(super) struct HttpSse {
    server: HttpServer,
    endpoint: Arc<str>,
    stream: EventStream,
    /// Requests without a response.
    pending: Arc<Mutex<HashSet<RequestId>>>,
    /// Error responses in place of responses that were too large.
    failures: VecDeque<ServerJsonRpcMessage>,
}

impl HttpSse {
    /// Opens the stream of `url`, and waits for the endpoint.
    ///
    /// # Errors
    /// There is no such stream, or it has no valid endpoint.
    pub(super) async fn connect(server: HttpServer, url: &Uri) -> Result<Self, Failure> {
        let url = url.to_string();
        let own = [(ACCEPT, EVENT_STREAM)];
        let response = server.send(Method::GET, &url, None, [], &own, Bytes::new()).await?;
        if !response.status().is_success() {
            return Err(Failure::Client(HttpError::Status(response.status())));
        }
        if !is_of_type(&response, EVENT_STREAM) {
            return Err(Failure::ServerDoesNotSupportSse);
        }
        let frames = Frames::new(server.max_message());
        let body = Some(response.into_body());
        let mut stream = EventStream { body, frames, ready: VecDeque::new() };
        let endpoint = loop {
            match stream.next().await {
                Some(Received::Endpoint(endpoint)) => break endpoint,
                Some(Received::Message(_)) => {}
                Some(Received::TooLarge) | None => return Err(unexpected("a stream without an endpoint")),
            }
        };
        let endpoint = resolved(&url, &endpoint).ok_or_else(|| unexpected("an endpoint at another origin"))?;
        let (pending, failures) = (Arc::default(), VecDeque::new());
        Ok(Self { server, endpoint: endpoint.into(), stream, pending, failures })
    }

    fn answered(&self, message: &ServerJsonRpcMessage) {
        if let Some(id) = message::answered_id(message) {
            self.pending.lock().remove(id);
        }
    }
}

impl Transport<RoleClient> for HttpSse {
    type Error = Failure;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &message {
            self.pending.lock().insert(request.id.clone());
        }
        let (server, endpoint) = (self.server.clone(), Arc::clone(&self.endpoint));
        async move {
            let body = Bytes::from(serde_json::to_vec(&message)?);
            let own = [(CONTENT_TYPE, JSON)];
            // The response's body is not needed.
            let response = server.send(Method::POST, &endpoint, None, [], &own, body).await?;
            match response.status().is_success() {
                true => Ok(()),
                false => Err(Failure::Client(HttpError::Status(response.status()))),
            }
        }
    }

    /// Returns `None` if the server has ended the stream.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(failure) = self.failures.pop_front() {
                return Some(failure);
            }
            match self.stream.next().await? {
                Received::Message(message) => {
                    self.answered(&message);
                    return Some(*message);
                }
                // The rest of the stream cannot be read. Its end follows.
                Received::TooLarge => {
                    let failed = self.pending.lock().drain().collect::<Vec<_>>();
                    let failures = failed.into_iter().map(|id| message::failure(message::TOO_LARGE, id));
                    self.failures.extend(failures);
                }
                // Only the first endpoint counts.
                Received::Endpoint(_) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The URL of the endpoint, which may be relative to that of the stream. `None` if it has another origin.
fn resolved(url: &str, endpoint: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let endpoint = url.join(endpoint).ok()?;
    let is_same = endpoint.origin() == url.origin() && endpoint.origin().is_tuple();
    let has_user = !endpoint.username().is_empty() || endpoint.password().is_some();
    (is_same && !has_user).then(|| endpoint.to_string())
}

#[derive(Debug)]
enum Received {
    Endpoint(String),
    Message(Box<ServerJsonRpcMessage>),
    /// A message is larger than the limit.
    TooLarge,
}

/// Reads the events of the stream. [`EventStream::next`] is cancel-safe.
#[derive(Debug)]
struct EventStream {
    /// `None` after a message that is too large.
    body: Option<Incoming>,
    frames: Frames,
    ready: VecDeque<Received>,
}

impl EventStream {
    async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(received) = self.ready.pop_front() {
                return Some(received);
            }
            let Ok(data) = self.body.as_mut()?.frame().await?.ok()?.into_data() else { continue };
            let ready = &mut self.ready;
            let pushed = self.frames.push(&data, |frame| {
                if let Frame::Event(event) = frame {
                    match event.event {
                        b"endpoint" => {
                            let endpoint = std::str::from_utf8(event.data).unwrap_or_default();
                            ready.push_back(Received::Endpoint(endpoint.to_owned()));
                        }
                        b"" | b"message" => {
                            let message = message::read(event.data).map(Box::new);
                            ready.extend(message.map(Received::Message));
                        }
                        _ => {}
                    }
                }
                ControlFlow::Continue(())
            });
            if pushed.is_err() {
                ready.push_back(Received::TooLarge);
                self.body = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_has_the_origin_of_the_stream() {
        let url = "http://mcp.example:8000/a/sse?x=1";
        for (endpoint, expected) in [
            ("/messages?id=1", Some("http://mcp.example:8000/messages?id=1")),
            ("messages", Some("http://mcp.example:8000/a/messages")),
            ("?id=1", Some("http://mcp.example:8000/a/sse?id=1")),
            ("http://mcp.example:8000/m", Some("http://mcp.example:8000/m")),
            ("HTTP://MCP.example:8000/m", Some("http://mcp.example:8000/m")),
            ("http://mcp.example/m", None),
            ("https://mcp.example:8000/m", None),
            ("http://other.example:8000/m", None),
            ("//other.example:8000/m", None),
            (r"\\other.example:8000\m", None),
            ("http://mcp.example:8000@other.example/m", None),
            ("http://user:word@mcp.example:8000/m", None),
            ("file:///etc/passwd", None),
            ("data:text/plain,x", None),
            ("http://127.0.0.1:8000/m", None),
        ] {
            assert_eq!(resolved(url, endpoint).as_deref(), expected, "{endpoint}");
        }
    }
}
