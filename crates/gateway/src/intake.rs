//! Reads the body of a request within limits on size, time and memory.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout_at};

use super::{
    budget::{Budget, Reservation},
    drain::{self, Drain},
};
use toolwire_config::Limits;
use toolwire_pipeline::failure::{Failure, Kind};

/// How long the remainder of an oversized body is read and discarded, since clients do not read the response while they
/// are still sending.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of bytes allocated in advance for a body's declared length. More are allocated as bytes arrive.
const ROOM: usize = 256 << 10;

/// Minimum size in bytes of a body that stays in the buffer into which it was read. Smaller bodies are copied.
const SMALL: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Bounds<'a> {
    pub(super) limits: &'a Limits,
    /// Maximum size in bytes of this kind of body, if it has a limit of its own.
    pub(super) own_max: Option<usize>,
    pub(super) budget: &'a Arc<Budget>,
    pub(super) drain: &'a Drain,
}

/// Reads the body, and returns it with the memory reserved for it.
///
/// # Errors
/// [`Kind::TooLarge`] beyond `limits.max_body` or `own_max` bytes; [`Kind::Request`] if the body is compressed or
/// incomplete, or takes longer than `limits.body_timeout`; [`Kind::Overloaded`] if there is no memory for it;
/// [`Kind::Draining`] if the server stops before the body is complete.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Incoming,
    bounds: Bounds<'_>,
) -> Result<(Bytes, Reservation), Failure> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let failure = Failure::new(Kind::Request, "compressed request bodies are not supported");
        return Err(failure.with_status(415).with_param("content-encoding"));
    }
    let Bounds { limits, own_max, budget, drain } = bounds;
    let max = own_max.map_or(limits.max_body, |own| own.min(limits.max_body));
    let too_large = || too_large(max, max == limits.max_body);
    // A client that waits for `100 Continue` has sent nothing to discard.
    if body.size_hint().lower() > max as u64 {
        if !headers.contains_key(header::EXPECT) {
            discard(body, drain).await;
        }
        return Err(too_large());
    }
    let mut body = Pieces { body, deadline: Instant::now().checked_add(limits.body_timeout), limits, drain };
    let mut reservation = Reservation::new(budget);
    let mut read = BytesMut::new();
    while let Some(data) = body.next().await? {
        let length = read.len() + data.len();
        if length > max {
            discard(body.body, drain).await;
            return Err(too_large());
        }
        if read.is_empty() && body.body.is_end_stream() {
            reservation.grow(length)?;
            // A small body is a slice of a larger buffer and would keep that buffer alive.
            let body = if length < SMALL { Bytes::copy_from_slice(&data) } else { data };
            return Ok((body, reservation));
        }
        if length > read.capacity() {
            let announced = usize::try_from(body.body.size_hint().lower()).unwrap_or(ROOM).min(ROOM);
            let room = if read.is_empty() { length + announced } else { length.max(2 * read.capacity()) };
            reservation.grow(room)?;
            read.reserve(room - read.len());
        }
        read.extend_from_slice(&data);
    }
    Ok((read.freeze(), reservation))
}

/// The frames of a body, up to the deadline or the server's shutdown.
struct Pieces<'a> {
    body: Incoming,
    /// `None` if the time cannot be represented.
    deadline: Option<Instant>,
    limits: &'a Limits,
    drain: &'a Drain,
}

impl Pieces<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame,
                () = until(self.deadline) => return Err(too_slow(self.limits.body_timeout)),
                () = self.drain.when_begun() => return Err(drain::refusal()),
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| {
                let message = format!("the request's body is incomplete: {error}");
                Failure::new(Kind::Request, message).with_cause(error)
            })?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn discard(mut body: Incoming, drain: &Drain) {
    let deadline = Instant::now() + PATIENCE;
    tokio::select! {
        () = async { while let Ok(Some(Ok(_))) = timeout_at(deadline, body.frame()).await {} } => {}
        () = drain.when_begun() => {}
    }
}

/// Creates the failure for a body of more than `max` bytes. `is_setting` is true if the limit is configurable.
pub(super) fn too_large(max: usize, is_setting: bool) -> Failure {
    let setting = if is_setting { " (limits.max_body)" } else { "" };
    let message = format!("the request's body is larger than {max} bytes{setting}");
    Failure::new(Kind::TooLarge, message).with_param("body")
}

pub(super) fn too_slow(limit: Duration) -> Failure {
    let message = format!("the request's body took longer than {limit:?} (limits.body_timeout)");
    Failure::new(Kind::Request, message).with_status(408).with_code("request_timeout")
}
