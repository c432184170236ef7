//! [`UpstreamBody`]: an answer's body, whatever it comes over.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use hyper::body::{Body as _, Incoming as Http2Incoming};

use super::{
    connection::{Ended, Incoming},
    http2::Slot,
    innermost,
    pool::Pool,
};
use crate::wire::http1::BadBody;

/// An answer's body. Dropped before its end, it ends the exchange; read to its end, its connection is used again.
#[derive(Debug)]
pub(in crate::proxy) struct UpstreamBody {
    over: Over,
    pool: Arc<Pool>,
}

#[derive(Debug)]
enum Over {
    Http1(Incoming),
    Http2 {
        incoming: Http2Incoming,
        slot: Slot,
    },
    /// It is over.
    Nothing,
}

/// Why a body broke off.
#[derive(Debug)]
pub(in crate::proxy) enum Broken {
    Closed(io::Error),
    Framing(BadBody),
    Http2(hyper::Error),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(error) => error.fmt(f),
            Self::Framing(bad) => bad.fmt(f),
            Self::Http2(error) => write!(f, "{}", innermost(error)),
        }
    }
}

impl UpstreamBody {
    pub(super) fn http1(incoming: Incoming, pool: Arc<Pool>) -> Self {
        let mut body = Self { over: Over::Http1(incoming), pool };
        body.settle();
        body
    }

    pub(super) fn http2(incoming: Http2Incoming, slot: Slot, pool: Arc<Pool>) -> Self {
        Self { over: Over::Http2 { incoming, slot }, pool }
    }

    /// The upstream has been silent for too long. If others share its connection, no more requests join them.
    pub(in crate::proxy) fn retire(&self) {
        if let Over::Http2 { slot, .. } = &self.over {
            slot.retire();
        }
    }

    /// Nothing more comes.
    pub(in crate::proxy) fn is_over(&self) -> bool {
        match &self.over {
            Over::Http1(_) => false,
            Over::Http2 { incoming, .. } => incoming.is_end_stream(),
            Over::Nothing => true,
        }
    }

    /// What was given last is all that has come so far, as far as that can be told without a look.
    pub(in crate::proxy) fn is_drained(&self) -> bool {
        matches!(&self.over, Over::Http1(incoming) if incoming.is_drained())
    }

    /// Gives the next data to `take`, as it is framed. `false`: the body is over.
    pub(in crate::proxy) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&[u8]),
    ) -> Poll<Result<bool, Broken>> {
        match &mut self.over {
            Over::Nothing => Poll::Ready(Ok(false)),
            Over::Http1(incoming) => {
                let goes_on = ready!(incoming.poll_data(cx, take));
                self.settle();
                Poll::Ready(goes_on)
            }
            Over::Http2 { incoming, .. } => loop {
                let frame = match ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
                    None => return Poll::Ready(Ok(false)),
                    Some(Err(error)) => return Poll::Ready(Err(Broken::Http2(error))),
                    Some(Ok(frame)) => frame,
                };
                // Trailers say nothing of an answer, and empty data says nothing at all.
                if let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) {
                    take(&data);
                    return Poll::Ready(Ok(true));
                }
            },
        }
    }

    /// Gives the connection back as soon as the body is over.
    fn settle(&mut self) {
        if !matches!(&self.over, Over::Http1(incoming) if incoming.is_over()) {
            return;
        }
        if let Over::Http1(incoming) = std::mem::replace(&mut self.over, Over::Nothing) {
            match incoming.end() {
                Ended::Kept(connection) => self.pool.keep(connection),
                Ended::Unsolicited => self.pool.distrust(),
                Ended::Closed => {}
            }
        }
    }
}
