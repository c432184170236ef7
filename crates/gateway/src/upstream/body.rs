//! [`UpstreamBody`]: the body of an upstream's response, over HTTP/1.1 or HTTP/2.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming as Http2Body};

use super::{
    body_read::{BodyError, BodyRead},
    connection::{AfterBody, Http1Body},
    http2::Slot,
    pool::Pool,
};

/// The body of an upstream's response.
///
/// If it is dropped before its end, the exchange is aborted. If it is read to its end, its connection returns to the
/// pool.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    transport: Transport,
    pool: Arc<Pool>,
}

#[derive(Debug)]
enum Transport {
    Http1(Http1Body),
    Http2 {
        body: Http2Body,
        slot: Slot,
    },
    /// A body that does not come from an upstream.
    Made(Bytes),
    /// The body has ended, and its connection has returned to the pool.
    Ended,
}

impl UpstreamBody {
    pub(super) fn http1(body: Http1Body, pool: Arc<Pool>) -> Self {
        let mut body = Self { transport: Transport::Http1(body), pool };
        body.release_if_over();
        body
    }

    pub(super) fn http2(body: Http2Body, slot: Slot, pool: Arc<Pool>) -> Self {
        Self { transport: Transport::Http2 { body, slot }, pool }
    }

    /// Creates a body that does not come from an upstream.
    pub(super) fn made(body: Bytes, pool: Arc<Pool>) -> Self {
        Self { transport: Transport::Made(body), pool }
    }

    /// If the connection is shared, sends no more requests on it, because the upstream has been silent for too long.
    pub(crate) fn retire(&self) {
        if let Transport::Http2 { slot, .. } = &self.transport {
            slot.retire();
        }
    }

    /// Whether the body is known to have ended.
    pub(crate) fn is_over(&self) -> bool {
        match &self.transport {
            Transport::Http1(_) => false,
            Transport::Http2 { body, .. } => body.is_end_stream(),
            Transport::Made(body) => body.is_empty(),
            Transport::Ended => true,
        }
    }

    /// Whether the last read is known to have emptied the socket.
    pub(crate) fn is_drained(&self) -> bool {
        matches!(&self.transport, Transport::Http1(body) if body.is_drained())
    }

    /// Passes the next data to `on_data`, in the pieces into which the framing divides it.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        mut on_data: impl FnMut(&[u8]),
    ) -> Poll<Result<BodyRead, BodyError>> {
        match &mut self.transport {
            Transport::Ended => Poll::Ready(Ok(BodyRead::End)),
            Transport::Made(body) if body.is_empty() => Poll::Ready(Ok(BodyRead::End)),
            Transport::Made(body) => {
                on_data(&mem::take(body));
                Poll::Ready(Ok(BodyRead::Data))
            }
            Transport::Http1(body) => {
                let read = ready!(body.poll_data(cx, on_data));
                self.release_if_over();
                Poll::Ready(read)
            }
            Transport::Http2 { body, .. } => loop {
                let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                    None => return Poll::Ready(Ok(BodyRead::End)),
                    Some(Err(error)) => return Poll::Ready(Err(BodyError::Http2(error))),
                    Some(Ok(frame)) => frame,
                };
                // Trailers are discarded, as over HTTP/1.1, and empty data is not worth a wake-up.
                if let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) {
                    on_data(&data);
                    return Poll::Ready(Ok(BodyRead::Data));
                }
            },
        }
    }

    /// Returns the connection to the pool if the body has ended.
    fn release_if_over(&mut self) {
        if !matches!(&self.transport, Transport::Http1(body) if body.is_over()) {
            return;
        }
        if let Transport::Http1(body) = mem::replace(&mut self.transport, Transport::Ended) {
            match body.end() {
                AfterBody::Reusable(connection) => self.pool.keep(connection),
                AfterBody::Unsolicited => self.pool.distrust(),
                AfterBody::Close => {}
            }
        }
    }
}
