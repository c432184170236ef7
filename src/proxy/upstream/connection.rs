//! [`Connection`]: one HTTP/1.1 connection to an upstream, on which one exchange follows the other.
//!
//! The answer's reader polls it in place: no task and no channel stands between the socket and the pipeline, and all
//! connections of a thread read into one buffer, so that an open stream keeps none of its own. That is why toolwire has
//! its own exchange here and not hyper's client, whose buffers alone are more than a stream may cost
//! (docs/performance.md).

use std::{
    cell::RefCell,
    fmt,
    future::poll_fn,
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut, buf::Chain};
use http::response::Parts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    body::Broken,
    head::{self, Head, NoHttp},
    innermost,
    stream::Stream,
};
use crate::wire::http1::Body;

/// Bytes that one read takes at most.
const READ: usize = 32 << 10;

/// Bytes of a response's head. Beyond: no HTTP.
const MAX_HEAD: usize = 64 << 10;

thread_local! {
    /// What a read fills and the pipeline empties at once; nothing stays in it.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// The last read has taken all that there was.
    is_drained: bool,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The connection closed, or failed; `silent` if not a byte of an answer had come.
    Closed { error: io::Error, silent: bool },
    /// What came is no HTTP.
    NoHttp(NoHttp),
    /// The same over HTTP/2.
    Http2(hyper::Error),
}

impl Unanswered {
    /// The connection closed before anything of an answer came.
    pub(super) fn is_silent(&self) -> bool {
        match self {
            Self::Closed { silent, .. } => *silent,
            Self::NoHttp(_) => false,
            Self::Http2(error) => error.is_closed() || error.is_canceled(),
        }
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { error, .. } => error.fmt(f),
            Self::NoHttp(bad) => bad.fmt(f),
            Self::Http2(error) => write!(f, "{}", innermost(error)),
        }
    }
}

/// An answer's body, as it comes.
#[derive(Debug)]
pub(super) struct Incoming {
    connection: Connection,
    body: Body,
    /// What was read together with the head.
    early: Bytes,
    /// The rest of the request, if the answer began before all of it was sent.
    unsent: Option<Box<Outgoing>>,
    keeps: bool,
}

/// A request on its way: its head, and its body.
type Outgoing = Chain<BytesMut, Bytes>;

impl Connection {
    /// A connection on which nothing has been said.
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, is_drained: false }
    }

    /// Whether it can still be used, as far as is known: an upstream that has closed it, or said something unasked,
    /// is noticed.
    pub(super) async fn is_open(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.poll_read(cx, |_| ()).is_pending())).await
    }

    /// Sends a request that begins with `head` ([`head::write`]) and waits for the head of its answer.
    pub(super) async fn ask(mut self, head: &[u8], body: Bytes) -> Result<(Parts, Incoming), Unanswered> {
        let mut out = head::with_length(head, body.len()).chain(body);
        let mut read = BytesMut::new();
        let head = poll_fn(|cx| self.poll_head(cx, &mut out, &mut read)).await?;
        let Head { parts, body, keeps, length } = head;
        read.advance(length);
        let is_sent = poll_fn(|cx| Poll::Ready(self.poll_write(cx, &mut out))).await;
        let is_sent = matches!(is_sent, Poll::Ready(Ok(())));
        // Who refuses wants no more of it.
        let unsent = (!is_sent && parts.status.is_success()).then(|| Box::new(out));
        let keeps = keeps && (is_sent || unsent.is_some());
        Ok((parts, Incoming { connection: self, body, early: read.freeze(), unsent, keeps }))
    }

    /// Writes what is left of the request and reads the answer, which may come before all is written.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut impl Buf,
        read: &mut BytesMut,
    ) -> Poll<Result<Head, Unanswered>> {
        let written = self.poll_write(cx, out);
        loop {
            let before = read.len();
            let error = match ready!(self.poll_read(cx, |bytes| read.extend_from_slice(bytes))) {
                Ok(()) if read.len() > before => None,
                Ok(()) => Some(closed()),
                Err(error) => Some(error),
            };
            if let Some(error) = error {
                let error = if let Poll::Ready(Err(earlier)) = written { earlier } else { error };
                return Poll::Ready(Err(Unanswered::Closed { error, silent: read.is_empty() }));
            }
            // Only a line end can make a head whole.
            if read.get(before..).is_some_and(|new| new.contains(&b'\n'))
                && let Some(head) = head::read(read).map_err(Unanswered::NoHttp)?
            {
                return Poll::Ready(Ok(head));
            }
            if read.len() > MAX_HEAD {
                let error = NoHttp::too_long(MAX_HEAD);
                return Poll::Ready(Err(Unanswered::NoHttp(error)));
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut impl Buf) -> Poll<io::Result<()>> {
        while out.has_remaining() {
            let mut slices = [IoSlice::new(&[]); 2];
            let slices = {
                let filled = out.chunks_vectored(&mut slices);
                slices.get(..filled).unwrap_or_default()
            };
            let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
            if written == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            out.advance(written);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// One read; `take` is given what came, unless the other side has closed.
    fn poll_read<T>(&mut self, cx: &mut Context<'_>, take: impl FnOnce(&[u8]) -> T) -> Poll<io::Result<T>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            // TLS gives a record at a time.
            self.is_drained = buffer.remaining() > 0 && matches!(self.stream, Stream::Tcp(_));
            Poll::Ready(Ok(take(buffer.filled())))
        })
    }
}

impl Incoming {
    /// Gives the next data to `take`, piece by piece as it is framed. `false`: the body is over.
    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&[u8]),
    ) -> Poll<Result<bool, Broken>> {
        if self.body.is_over() {
            return Poll::Ready(Ok(false));
        }
        self.poll_send(cx);
        let body = &mut self.body;
        let mut framed = |mut bytes: &[u8]| {
            while let Some(data) = body.next(&mut bytes)? {
                take(data);
            }
            Ok(bytes.len())
        };
        let unframed = if self.early.is_empty() {
            let read = ready!(self.connection.poll_read(cx, |bytes| match bytes {
                [] => None,
                bytes => Some(framed(bytes)),
            }));
            match read.map_err(Broken::Closed)? {
                Some(unframed) => unframed,
                None => {
                    self.keeps = false;
                    self.body.close().map(|()| 0)
                }
            }
        } else {
            framed(&std::mem::take(&mut self.early))
        };
        // More than the answer: whatever that is, it is none to the next request.
        self.keeps &= unframed.map_err(Broken::Framing)? == 0;
        Poll::Ready(Ok(true))
    }

    /// Sends what is left of the request. An upstream that takes no more of it may still answer.
    fn poll_send(&mut self, cx: &mut Context<'_>) {
        let Some(unsent) = &mut self.unsent else { return };
        if let Poll::Ready(sent) = self.connection.poll_write(cx, unsent) {
            self.unsent = None;
            self.keeps &= sent.is_ok();
        }
    }

    /// More than what was read is not there yet.
    pub(super) fn is_drained(&self) -> bool {
        self.connection.is_drained && self.early.is_empty()
    }

    /// All has been read.
    pub(super) fn is_over(&self) -> bool {
        self.body.is_over()
    }

    /// The connection, if the body is over and another request may follow.
    pub(super) fn into_connection(self) -> Option<Connection> {
        let is_usable = self.keeps && self.unsent.is_none() && self.body.is_over() && self.early.is_empty();
        is_usable.then_some(self.connection)
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed")
}
