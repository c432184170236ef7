//! Reads a client's request body, bounded in size and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::{Failure, Kind};

/// The longest pause between two pieces of a request body.
const PAUSE: Duration = Duration::from_secs(30);

/// A body that is too large is read on and thrown away for so long, since a client that is still sending does not
/// read our answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a body that are made room for because they are announced. Beyond: when they come.
const ROOM: usize = 256 << 10;

/// The whole body.
///
/// # Errors
/// [`Kind::TooLarge`] beyond `max` bytes, [`Kind::Request`] if it is compressed, stalls or breaks off.
pub(super) async fn read(headers: &HeaderMap, mut body: Incoming, max: usize) -> Result<Bytes, Failure> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let failure = Failure::new(Kind::Request, "compressed request bodies are not understood");
        return Err(failure.with_status(415).with_param("content-encoding"));
    }
    // A client that waits for `100 Continue` is refused before it sends anything.
    if body.size_hint().lower() > max as u64 {
        if !headers.contains_key(header::EXPECT) {
            throw_away(body).await;
        }
        return Err(too_large(max));
    }
    let mut read = BytesMut::new();
    while let Some(data) = next(&mut body).await? {
        if read.len() + data.len() > max {
            throw_away(body).await;
            return Err(too_large(max));
        }
        if read.is_empty() {
            if body.is_end_stream() {
                return Ok(data);
            }
            let rest = usize::try_from(body.size_hint().lower()).unwrap_or(ROOM).min(ROOM);
            read.reserve(data.len() + rest);
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame = timeout(PAUSE, body.frame()).await.map_err(|_elapsed| {
            Failure::new(Kind::Request, "the request's body did not come in time").with_status(408)
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame
            .map_err(|error| Failure::new(Kind::Request, format!("the request's body broke off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

async fn throw_away(mut body: Incoming) {
    let deadline = Instant::now() + PATIENCE;
    while let Ok(Some(Ok(_))) = timeout_at(deadline, body.frame()).await {}
}

fn too_large(max: usize) -> Failure {
    let message = format!("the request's body is larger than {max} bytes (limits.max_body)");
    Failure::new(Kind::TooLarge, message).with_param("body")
}
