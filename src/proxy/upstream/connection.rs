//! [`Connection`]: one HTTP/1.1 connection to an upstream, on which one exchange follows the other.
//!
//! The answer's reader polls it in place: no task and no channel stands between the socket and the pipeline, and all
//! connections of a thread read into one buffer, so that an open stream keeps none of its own. That is why toolwire has
//! its own exchange here and not hyper's client, whose buffers alone are more than a stream may cost
//! (docs/performance.md).

use std::{
    cell::RefCell,
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
    head::{self, Head, HeadReader},
    stream::{Idle, Stream},
    unanswered::Unanswered,
};
use crate::wire::http1::BodyDecoder;

/// Bytes that one read takes at most.
const READ: usize = 32 << 10;

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
    /// An exchange went before.
    used: bool,
}

/// An answer's body, as it comes.
#[derive(Debug)]
pub(super) struct Incoming {
    connection: Connection,
    body: BodyDecoder,
    /// What was read together with the head.
    early: Bytes,
    /// The rest of the request, if the answer began before all of it was sent.
    unsent: Option<Box<Outgoing>>,
    keeps: bool,
    /// More came than the answer.
    unsolicited: bool,
}

/// What becomes of a connection when its answer is over.
#[derive(Debug)]
pub(super) enum Ended {
    /// Another request may follow on it.
    Kept(Connection),
    /// It is not used again.
    Closed,
    /// Nor is this one: it would have been, but more came than the answer.
    Unsolicited,
}

/// A request on its way: its head, and its body.
type Outgoing = Chain<BytesMut, Bytes>;

/// A request whose answer has not begun.
#[derive(Debug)]
struct Asking {
    out: Outgoing,
    /// Bytes of the request.
    length: usize,
    heads: HeadReader,
    /// Bytes of the answer came before the request was sent.
    early: bool,
}

impl Connection {
    /// A connection on which nothing has been said.
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, is_drained: false, used: false }
    }

    /// Whether another exchange went before.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Whether it can be used again: an upstream that has closed it, or said something unasked, is noticed.
    pub(super) async fn look(&mut self) -> Idle {
        poll_fn(|cx| Poll::Ready(self.stream.look(cx))).await
    }

    /// Sends a request that begins with `head` ([`head::write`]) and waits for the head of its answer.
    pub(super) async fn ask(mut self, head: &[u8], body: Bytes) -> Result<(Parts, Incoming), Unanswered> {
        let out = head::with_length(head, body.len()).chain(body);
        let length = out.remaining();
        let mut asking = Asking { out, length, heads: HeadReader::default(), early: false };
        let Head { parts, body, keeps } = poll_fn(|cx| self.poll_head(cx, &mut asking)).await?;
        let Asking { mut out, heads, early, .. } = asking;
        if early && self.used && parts.status.is_success() {
            return Err(Unanswered::Unsolicited);
        }
        let is_sent = poll_fn(|cx| Poll::Ready(self.poll_write(cx, &mut out))).await;
        let is_sent = matches!(is_sent, Poll::Ready(Ok(())));
        // Who refuses wants no more of it.
        let unsent = (!is_sent && parts.status.is_success()).then(|| Box::new(out));
        let keeps = keeps && (is_sent || unsent.is_some());
        self.used = true;
        let early = heads.into_rest();
        Ok((parts, Incoming { connection: self, body, early, unsent, keeps, unsolicited: false }))
    }

    /// Writes what is left of the request and reads the answer, which may come before all is written.
    fn poll_head(&mut self, cx: &mut Context<'_>, asking: &mut Asking) -> Poll<Result<Head, Unanswered>> {
        let mut failed = match self.poll_write(cx, &mut asking.out) {
            Poll::Ready(Err(error)) => Some(error),
            _ => None,
        };
        // TLS takes bytes before it writes them, so that there nothing can be told from what it has taken.
        if let Some(error) = failed
            .take_if(|_| asking.out.remaining() == asking.length && matches!(self.stream, Stream::Tcp(_)))
        {
            return Poll::Ready(Err(Unanswered::Unsent(error)));
        }
        loop {
            let heads = &mut asking.heads;
            let read = ready!(self.poll_read(cx, |bytes| {
                heads.push(bytes);
                bytes.len()
            }));
            let error = match read {
                Ok(0) => closed(),
                Ok(_) => {
                    asking.early |= asking.out.has_remaining();
                    match asking.heads.next().map_err(Unanswered::NoHttp)? {
                        Some(head) => return Poll::Ready(Ok(head)),
                        None => continue,
                    }
                }
                Err(error) => error,
            };
            let (error, silent) = (failed.unwrap_or(error), asking.heads.is_empty());
            return Poll::Ready(Err(Unanswered::Closed { error, silent }));
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
    ///
    /// It is not ready for framing without data, of which an upstream could send some for ever.
    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&[u8]),
    ) -> Poll<Result<bool, Broken>> {
        self.poll_send(cx);
        while !self.body.is_over() {
            let mut is_data = false;
            ready!(self.poll_framed(cx, |data| {
                is_data = true;
                take(data);
            }))?;
            if is_data {
                return Poll::Ready(Ok(true));
            }
        }
        Poll::Ready(Ok(false))
    }

    /// One read; `take` is given the data in it.
    fn poll_framed(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(&[u8])) -> Poll<Result<(), Broken>> {
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
        self.unsolicited |= unframed.map_err(Broken::Framing)? > 0;
        Poll::Ready(Ok(()))
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
    pub(super) fn end(self) -> Ended {
        let may_follow = self.keeps && self.unsent.is_none() && self.body.is_over();
        match self.unsolicited || !self.early.is_empty() {
            _ if !may_follow => Ended::Closed,
            true => Ended::Unsolicited,
            false => Ended::Kept(self.connection),
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed")
}
