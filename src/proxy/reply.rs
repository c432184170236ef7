//! Responses: the streams, and everything that is said at once.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header, response::Parts};
use http_body::{Frame, SizeHint};

use crate::{
    dialect::chat,
    failure::{Failure, Kind},
    observe::{Access, Outcome},
};

use super::answer::Answer;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// What a response says, with the record of its request, which ends when this is dropped.
#[derive(Debug)]
pub(super) enum Body {
    /// Said at once.
    Plain(Box<Plain>),
    /// An upstream's answer, as it comes.
    Answer(Pin<Box<Answer>>),
}

/// Bytes that are there.
#[derive(Debug)]
pub(super) struct Plain {
    bytes: Bytes,
    outcome: Option<Outcome>,
    access: Access,
}

/// A response of `bytes`.
pub(super) fn plain(
    status: StatusCode,
    content_type: HeaderValue,
    bytes: impl Into<Bytes>,
    access: Access,
) -> Response<Body> {
    let mut response = said(status, bytes.into(), Outcome::Done, access);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// A response of JSON.
pub(super) fn json(value: &serde_json::Value, access: Access) -> Response<Body> {
    plain(StatusCode::OK, JSON, value.to_string(), access)
}

/// A response that says only which methods there are.
pub(super) fn options(allow: &'static str, access: Access) -> Response<Body> {
    let mut response = said(StatusCode::NO_CONTENT, Bytes::new(), Outcome::Done, access);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// The error object of `failure`.
pub(super) fn error(failure: Failure, access: Access) -> Response<Body> {
    let bytes = chat::error_body(&failure);
    let mut response = said(status_of(&failure), bytes.into(), Outcome::Failed(failure.clone()), access);
    put_error_headers(&mut response, &failure);
    if failure.kind() == Kind::Unauthorized {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// The response that is `answer`: 200, or the status and the error object of the failure that came before content.
pub(super) fn answer(
    mut answer: Pin<Box<Answer>>,
    stream: bool,
    committed: Result<(), Failure>,
) -> Response<Body> {
    let status = committed.as_ref().err().map_or(StatusCode::OK, status_of);
    answer.as_mut().access().status(status.as_u16());
    if let Err(failure) = &committed {
        answer.as_mut().refuse(failure);
    }
    let mut response = Response::new(Body::Answer(answer));
    *response.status_mut() = status;
    match committed {
        Err(failure) => put_error_headers(&mut response, &failure),
        Ok(()) if stream => put_stream_headers(&mut response),
        Ok(()) => _ = response.headers_mut().insert(header::CONTENT_TYPE, JSON),
    }
    response
}

/// The answer, and the response's head, if the response is a stream.
pub(super) fn into_stream(response: Response<Body>) -> Result<(Parts, Pin<Box<Answer>>), Response<Body>> {
    let (head, body) = response.into_parts();
    match body {
        Body::Answer(answer) if answer.is_streaming() => Ok((head, answer)),
        body => Err(Response::from_parts(head, body)),
    }
}

/// For a HEAD request: the same without the body.
pub(super) fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Body::Plain(plain) = response.body_mut() {
        let length = HeaderValue::from(plain.bytes.len());
        plain.take();
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
    }
    response
}

fn said(status: StatusCode, bytes: Bytes, outcome: Outcome, mut access: Access) -> Response<Body> {
    access.status(status.as_u16());
    let mut plain = Plain { bytes, outcome: Some(outcome), access };
    if plain.bytes.is_empty() {
        plain.take();
    }
    let mut response = Response::new(Body::Plain(Box::new(plain)));
    *response.status_mut() = status;
    response
}

fn status_of(failure: &Failure) -> StatusCode {
    StatusCode::from_u16(failure.status()).unwrap_or(StatusCode::BAD_GATEWAY)
}

fn put_error_headers(response: &mut Response<Body>, failure: &Failure) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    if let Some(value) = failure.retry_after().and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(header::RETRY_AFTER, value);
    }
}

fn put_stream_headers(response: &mut Response<Body>) {
    const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies on the way (nginx) keep streams back otherwise.
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
}

impl Plain {
    /// Hands the bytes out; with that, the request has ended as it was going to.
    fn take(&mut self) -> Bytes {
        if let Some(outcome) = self.outcome.take() {
            self.access.ended(outcome);
        }
        std::mem::take(&mut self.bytes)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Answer(answer) => answer.as_mut().poll_frame(cx),
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
            Self::Answer(answer) => answer.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(plain) => SizeHint::with_exact(plain.bytes.len() as u64),
            Self::Answer(answer) => answer.size_hint(),
        }
    }
}
