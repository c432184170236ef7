//! Responses: streams, and responses that are sent in one piece.
//!
//! Heads are built from scratch, so no list of headers to strip is needed. Of an upstream's headers, clients receive
//! `Retry-After` and, if the request is passed through, those listed in `passthrough`.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, response::Parts};
use http_body::{Frame, SizeHint};

use crate::observe::{Access, Outcome};
use toolwire_pipeline::{
    dialect::ClientDialect,
    failure::{Failure, Kind},
};

use super::{
    answer::AnswerBody,
    feed_body::FeedBody,
    passthrough::{BrokenOff, PassedBody},
    retry_after,
    websocket::Handshake,
};

/// The dialect for paths that do not belong to any dialect.
pub(super) const DEFAULT_DIALECT: ClientDialect = ClientDialect::Chat;

/// Identifies a request in the logs. Clients may send their own id.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The same id under the name that Anthropic's SDKs read.
const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// The configured model that answered, if the requested model has alternatives.
const TARGET: HeaderName = HeaderName::from_static("x-toolwire-target");

/// How many configured models were asked.
const ATTEMPTS: HeaderName = HeaderName::from_static("x-toolwire-attempts");

/// The members of a request that the upstream does not get, or gets otherwise.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-toolwire-left-out");

/// Maximum number of members named in this header, and of bytes of one name. Clients may invent members.
const MAX_NAMED: usize = 16;
const MAX_NAME: usize = 64;

/// Says which pages may load a response without a CORS request.
pub(super) const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// The body of a response. It owns the request's log record, which is completed when the body is dropped.
#[derive(Debug)]
pub enum ReplyBody {
    Plain(Box<Plain>),
    /// An upstream's response, which is sent as it arrives.
    AnswerBody(Pin<Box<AnswerBody>>),
    /// An upstream's response that is passed through unread.
    Passed(Box<PassedBody>),
    /// A stream of toolwire's own events.
    Feed(Box<FeedBody>),
    /// An upstream's response that is sent without hyper. This body never yields data.
    Elsewhere,
    /// The connection becomes a WebSocket. This body never yields data.
    WebSocket(Box<Handshake>),
}

#[derive(Debug)]
pub struct Plain {
    bytes: Bytes,
    outcome: Option<Outcome>,
    access: Access,
}

pub fn plain(
    status: StatusCode,
    content_type: HeaderValue,
    bytes: impl Into<Bytes>,
    access: Access,
) -> Response<ReplyBody> {
    let mut response = said(status, bytes.into(), Outcome::Done, access);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

pub(super) fn json(value: &serde_json::Value, access: Access) -> Response<ReplyBody> {
    plain(StatusCode::OK, JSON, value.to_string(), access)
}

/// Like [`json`], for text that is already serialized.
pub(super) fn json_text(text: Bytes, access: Access) -> Response<ReplyBody> {
    plain(StatusCode::OK, JSON, text, access)
}

/// A response without a body whose `Allow` header lists the methods.
pub fn options(allow: &'static str, access: Access) -> Response<ReplyBody> {
    let mut response = said(StatusCode::NO_CONTENT, Bytes::new(), Outcome::Done, access);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// The error response to `failure` in the client's dialect.
pub fn error(failure: Failure, dialect: ClientDialect, access: Access) -> Response<ReplyBody> {
    let bytes = dialect.side().error_body(&failure);
    let mut response = said(status_of(&failure), bytes.into(), Outcome::Failed(failure.clone()), access);
    put_error_headers(response.headers_mut(), &failure);
    response
}

/// The response to a WebSocket upgrade request. Clients that receive it switch to plain HTTP immediately instead of
/// retrying the upgrade (RFC 9110, section 15.5.22).
pub(super) fn upgrade_required(dialect: ClientDialect, access: Access) -> Response<ReplyBody> {
    let message = "toolwire has a WebSocket only at /v1/responses, and only if no server in front of it removes the \
                   upgrade; send the request over HTTP";
    let failure = Failure::new(Kind::Request, message).with_status(426).with_code("upgrade_required");
    let mut response = error(failure.with_param(header::UPGRADE.as_str()), dialect, access);
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response
}

/// The response that makes the connection a WebSocket. `accept` is the value of `Sec-WebSocket-Accept`.
pub(super) fn switching(
    handshake: Handshake,
    accept: HeaderValue,
    mut access: Access,
) -> Response<ReplyBody> {
    let status = StatusCode::SWITCHING_PROTOCOLS;
    access.status(status.as_u16());
    access.ended(Outcome::Done);
    let mut response = Response::new(ReplyBody::WebSocket(Box::new(handshake)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// Splits a response that has a complete body, and records that the body is sent.
pub(super) fn into_plain(response: Response<ReplyBody>) -> (Parts, Bytes) {
    let (parts, body) = response.into_parts();
    let bytes = match body {
        ReplyBody::Plain(mut plain) => {
            let bytes = plain.take();
            plain.access.wrote(bytes.len());
            bytes
        }
        _ => Bytes::new(),
    };
    (parts, bytes)
}

/// Passes on an upstream's response with this status, `headers` and body.
pub(super) fn passed(status: StatusCode, headers: HeaderMap, body: PassedBody) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Passed(Box::new(body)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Passes on an error with a complete body. `failure` describes the error in logs and metrics.
pub(super) fn passed_error(
    status: StatusCode,
    headers: HeaderMap,
    bytes: Bytes,
    failure: Failure,
    access: Access,
) -> Response<ReplyBody> {
    let mut response = said(status, bytes, Outcome::Failed(failure), access);
    *response.headers_mut() = headers;
    response
}

pub fn feed(body: FeedBody) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Feed(Box::new(body)));
    put_stream_headers(response.headers_mut());
    response
}

/// Prevents a body from another server from becoming a page of this server, and prevents pages of other origins from
/// loading it. Pages that may call toolwire can still read it: their requests name their origin, and this policy does
/// not apply to such requests.
pub(super) fn put_no_page(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}

/// Adds headers that say which model has answered, if there are alternatives.
fn put_attempts(headers: &mut HeaderMap, answer: &AnswerBody, is_final: bool) {
    let Some((target, count)) = answer.attempts() else { return };
    if let Ok(target) = HeaderValue::try_from(target) {
        headers.insert(TARGET, target);
    }
    headers.insert(ATTEMPTS, HeaderValue::from(count));
    if is_final && count > 1 {
        // Toolwire has already made the attempts that the client would repeat.
        retry_after::end_retries(headers);
    }
}

/// Adds the header that says which members the upstream did not get.
fn put_left_out(headers: &mut HeaderMap, members: &[String]) {
    let is_plain = |char: u8| char.is_ascii_alphanumeric() || b"_-.[]".contains(&char);
    let is_name = |name: &&String| name.len() <= MAX_NAME && name.bytes().all(is_plain);
    let names: Vec<_> = members.iter().filter(is_name).take(MAX_NAMED).map(String::as_str).collect();
    let rest = if names.len() < members.len() { ", other" } else { "" };
    let names = format!("{}{rest}", names.join(", "));
    if let Ok(names) = HeaderValue::try_from(names.trim_start_matches(", "))
        && !members.is_empty()
    {
        headers.insert(LEFT_OUT, names);
    }
}

/// Creates the response with the body `answer`. Its status is 200, unless the response failed before any content. In
/// that case, the failure determines the status, and the body becomes an error body.
pub fn answer(
    mut answer: Pin<Box<AnswerBody>>,
    committed: Result<(), Failure>,
) -> (Parts, Pin<Box<AnswerBody>>) {
    let (mut head, ()) = Response::new(()).into_parts();
    let outage = committed.as_ref().err().and_then(|failure| answer.outage(failure));
    put_attempts(&mut head.headers, &answer, committed.is_err() && outage.is_none());
    put_left_out(&mut head.headers, answer.left_out());
    let committed = committed.map_err(|failure| outage.unwrap_or(failure));
    head.status = committed.as_ref().err().map_or(StatusCode::OK, status_of);
    match committed {
        Err(failure) => {
            answer.as_mut().refuse(&failure);
            put_error_headers(&mut head.headers, &failure);
            if answer.would_run_tools_again() {
                // SDKs automatically retry failed requests, which would run the tools again.
                retry_after::end_retries(&mut head.headers);
            } else if answer.keeps_results() && failure.may_succeed_elsewhere() {
                retry_after::allow_retries(&mut head.headers);
            }
        }
        Ok(()) if answer.is_streaming() => {
            put_stream_headers(&mut head.headers);
            let content_type = HeaderValue::from_static(answer.content_type());
            head.headers.insert(header::CONTENT_TYPE, content_type);
        }
        Ok(()) => _ = head.headers.insert(header::CONTENT_TYPE, JSON),
    }
    answer.put_rates(&mut head.headers);
    answer.granted().put(&mut head.headers);
    let access = answer.as_mut().access();
    access.status(head.status.as_u16());
    put_request_id(&mut head.headers, access.id());
    (head, answer)
}

/// Adds the id under which the request is logged.
pub(super) fn put_request_id(headers: &mut HeaderMap, id: &str) {
    if let Ok(id) = HeaderValue::try_from(id) {
        headers.insert(ANTHROPIC_REQUEST_ID, id.clone());
        headers.insert(REQUEST_ID, id);
    }
}

/// Asks for the connection to be closed after the response. Only for HTTP/1.
pub(super) fn close(headers: &mut HeaderMap) {
    headers.append(header::CONNECTION, HeaderValue::from_static("close"));
}

pub(super) fn without_body(mut response: Response<ReplyBody>) -> Response<ReplyBody> {
    if let ReplyBody::Plain(plain) = response.body_mut() {
        let length = HeaderValue::from(plain.bytes.len());
        plain.take();
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
    }
    response
}

pub fn said(status: StatusCode, bytes: Bytes, outcome: Outcome, mut access: Access) -> Response<ReplyBody> {
    access.status(status.as_u16());
    let mut plain = Plain { bytes, outcome: Some(outcome), access };
    if plain.bytes.is_empty() {
        plain.take();
    }
    let mut response = Response::new(ReplyBody::Plain(Box::new(plain)));
    *response.status_mut() = status;
    response
}

fn status_of(failure: &Failure) -> StatusCode {
    StatusCode::from_u16(failure.status()).unwrap_or(StatusCode::BAD_GATEWAY)
}

fn put_error_headers(headers: &mut HeaderMap, failure: &Failure) {
    headers.insert(header::CONTENT_TYPE, JSON);
    retry_after::put(headers, failure);
    if failure.kind() == Kind::Unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
}

fn put_stream_headers(headers: &mut HeaderMap) {
    const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Without this header, proxies such as nginx buffer the stream.
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
}

impl Plain {
    /// Takes the bytes and records the outcome of the request.
    fn take(&mut self) -> Bytes {
        if let Some(outcome) = self.outcome.take() {
            self.access.ended(outcome);
        }
        std::mem::take(&mut self.bytes)
    }
}

impl ReplyBody {
    /// Records that the connection is being closed because the client accepted nothing for too long.
    pub(super) fn stalled(&mut self) {
        match self {
            Self::AnswerBody(answer) => answer.as_mut().stalled(),
            Self::Passed(passed) => passed.stalled(),
            Self::Feed(feed) => feed.stalled(),
            Self::Plain(_) | Self::Elsewhere | Self::WebSocket(_) => {}
        }
    }
}

impl http_body::Body for ReplyBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            Self::AnswerBody(answer) => {
                let frame = ready!(answer.as_mut().poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(|never: Infallible| match never {})))
            }
            Self::Passed(passed) => passed.poll_piece(cx),
            Self::Feed(feed) => feed.poll_piece(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
            Self::Elsewhere | Self::WebSocket(_) => Poll::Pending,
            Self::Plain(plain) if plain.bytes.is_empty() => Poll::Ready(None),
            Self::Plain(plain) => {
                let bytes = plain.take();
                plain.access.wrote(bytes.len());
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.bytes.is_empty(),
            Self::AnswerBody(answer) => answer.is_end_stream(),
            Self::Passed(passed) => passed.is_over(),
            Self::Feed(feed) => feed.is_over(),
            Self::Elsewhere | Self::WebSocket(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(plain) => SizeHint::with_exact(plain.bytes.len() as u64),
            Self::AnswerBody(answer) => answer.size_hint(),
            Self::Passed(_) | Self::Feed(_) | Self::Elsewhere | Self::WebSocket(_) => SizeHint::default(),
        }
    }
}
