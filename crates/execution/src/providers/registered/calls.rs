//! Delivers calls to programs, through a [`Callback`] or on the [`CallStream`] that a program has opened.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::{
    sync::{
        mpsc,
        oneshot::{self, error::TryRecvError},
    },
    time::Instant,
};
use url::Url;

use super::{Registration, Registrations, credentials, result};
use crate::{ErrorCode, Invocation, Output, ToolError, http::HttpClient};

/// Maximum number of unread calls on a program's stream, and of calls without a result.
pub(super) const MAX_WAITING: usize = 64;

/// A program's URL for calls.
#[derive(Debug, Clone)]
pub(super) struct Callback {
    url: Url,
    /// The program expects this token in `Authorization: Bearer`.
    token: Option<SecretString>,
}

impl Callback {
    pub(super) fn new(url: Url, token: Option<SecretString>) -> Self {
        Self { url, token }
    }

    /// Sends a call, signed with `key`, and parses its result.
    pub(super) async fn ask(
        &self,
        http: &HttpClient,
        key: &SecretString,
        call: &Invocation,
        max_result: usize,
    ) -> Result<Output, ToolError> {
        let failed = |message: &str| ToolError::new(ErrorCode::ProviderError, message);
        let request = self.request(key, call).ok_or_else(|| failed("The program's address cannot be used."))?;
        let response = http.send(request, max_result).await.map_err(|error| {
            tracing::warn!(tool = call.tool, %error, "a program could not be called");
            ToolError::from(error)
        })?;
        let status = response.status();
        if status.is_success() {
            return result::parse(response.body());
        }
        tracing::warn!(tool = call.tool, status = status.as_u16(), "a program refused a call");
        Err(match status.as_u16() {
            401 | 403 => ToolError::new(ErrorCode::AuthFailed, "The program that runs the tool refused the call."),
            429 => {
                let after = response.headers().get(header::RETRY_AFTER);
                let after = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
                let mut error = ToolError::new(ErrorCode::RateLimited, "The program that runs the tool is busy.");
                error.retry_after = after.map(Duration::from_secs);
                error
            }
            _ => failed("The program that runs the tool failed."),
        })
    }

    fn request(&self, key: &SecretString, call: &Invocation) -> Option<Request<Bytes>> {
        let body = message(call, &call.id);
        let uri: http::Uri = self.url.as_str().parse().ok()?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let mut request = Request::post(uri).header(header::CONTENT_TYPE, "application/json");
        for (name, value) in credentials::signed(key, &Method::POST, &path, body.as_bytes()) {
            request = request.header(name, value);
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose_secret()));
        }
        request.body(body.into()).ok()
    }
}

fn message(call: &Invocation, id: &str) -> String {
    json!({"type": "TOOL_EXECUTE", "toolName": call.tool, "params": call.arguments, "toolCallId": id}).to_string()
}

#[derive(Debug)]
pub(super) struct Message {
    /// The id of the call, if the message is about one.
    call: Option<String>,
    event: String,
}

/// The stream from which a program reads its calls. The program's registration does not expire while it is open.
#[derive(Debug)]
pub struct CallStream {
    registrations: Arc<Registrations>,
    id: String,
    calls: mpsc::Receiver<Message>,
}

impl CallStream {
    pub(super) fn new(
        registrations: Arc<Registrations>,
        id: String,
        calls: mpsc::Receiver<Message>,
    ) -> Self {
        Self { registrations, id, calls }
    }

    /// Polls for the next message, as an SSE event. Yields `None` if the registration has ended or if another stream
    /// has replaced this one.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        self.calls.poll_recv(cx).map(|message| message.map(|message| message.event))
    }
}

impl Drop for CallStream {
    fn drop(&mut self) {
        self.calls.close();
        let mut entries = self.registrations.entries.lock();
        // Another stream may have replaced this one.
        if let Some(entry) = entries.get_mut(&self.id) {
            entry.expires = entry.expires.max(Instant::now() + self.registrations.options.lease);
            // Calls that were not sent will not get a result.
            while let Ok(message) = self.calls.try_recv() {
                message.call.and_then(|call| entry.waiting.remove(&call));
            }
        }
        drop(entries);
        self.registrations.leases_changed.notify_one();
    }
}

/// A call that was sent on a stream.
pub(super) struct Sent {
    id: String,
    stream: mpsc::Sender<Message>,
    result: oneshot::Receiver<Result<Output, ToolError>>,
}

/// Sends a call on the stream of `entry`.
///
/// # Errors
/// The program does not read its calls, or too many of them have no result yet.
pub(super) fn send(
    entry: &mut Registration,
    stream: mpsc::Sender<Message>,
    call: &Invocation,
) -> Result<Sent, ToolError> {
    let busy = || ToolError::new(ErrorCode::RateLimited, "The program that runs the tool is busy.");
    if entry.waiting.len() >= MAX_WAITING {
        return Err(busy());
    }
    // Calls in different requests may have the same id.
    let others = (2..=MAX_WAITING + 1).map(|number| format!("{}-{number}", call.id));
    let mut ids = std::iter::once(call.id.clone()).chain(others);
    let id = ids.find(|id| !entry.waiting.contains_key(id)).ok_or_else(busy)?;
    let sent = Message { call: Some(id.clone()), event: event("call", &message(call, &id)) };
    stream.try_send(sent).map_err(|_| busy())?;
    let (sender, result) = oneshot::channel();
    entry.waiting.insert(id.clone(), sender);
    Ok(Sent { id, stream, result })
}

/// A call without a result. If this is dropped before the result arrives, the program is notified.
pub(super) struct Waiting<'r> {
    registrations: &'r Registrations,
    id: String,
    sent: Sent,
}

impl<'r> Waiting<'r> {
    pub(super) fn new(registrations: &'r Registrations, id: String, sent: Sent) -> Self {
        Self { registrations, id, sent }
    }

    /// Waits for the result. Returns `None` if the registration has ended.
    pub(super) async fn result(mut self) -> Option<Result<Output, ToolError>> {
        (&mut self.sent.result).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Any other state means that the call has a result, or that the registration has ended.
        if matches!(self.sent.result.try_recv(), Err(TryRecvError::Empty)) {
            if let Some(entry) = self.registrations.entries.lock().get_mut(&self.id) {
                entry.waiting.remove(&self.sent.id);
            }
            let cancelled = json!({"type": "TOOL_CANCEL", "toolCallId": self.sent.id}).to_string();
            let _ = self.sent.stream.try_send(Message { call: None, event: event("cancel", &cancelled) });
        }
    }
}

/// Formats an SSE event. JSON contains no line endings.
fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
