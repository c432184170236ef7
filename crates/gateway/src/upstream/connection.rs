//! [`Connection`]: an HTTP/1.1 connection to an upstream, for one exchange after another.
//!
//! The reader of a body polls the connection directly, without a task or channel between the socket and the pipeline.
//! All connections of a thread read into the same buffer, so an open stream does not need one of its own. This module
//! handles the sockets; [`http1`](toolwire_http1) interprets the bytes, and explains why hyper's client is not used.

use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, ErrorKind, IoSlice},
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut, buf::Chain};
use http::response::Parts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    body_read::{BodyError, BodyRead},
    no_response::NoResponse,
    stream::{IdleState, Stream},
};
use toolwire_http1::{BodyDecoder, HeadReader, RequestHead, ResponseHead};

/// Maximum number of bytes per read.
const READ_SIZE: usize = 32 << 10;

thread_local! {
    /// Filled by each read and immediately emptied by the pipeline. No bytes stay in it between reads.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_SIZE]);
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// Whether the last read emptied the socket.
    is_drained: bool,
    /// Whether an exchange has already taken place on the connection.
    is_used: bool,
}

#[derive(Debug)]
pub(super) struct Http1Body {
    connection: Connection,
    decoder: BodyDecoder,
    /// Bytes that were read together with the head.
    early: Bytes,
    /// What is left of the request, if the response began before all of it was sent.
    unsent: Option<Box<Outgoing>>,
    keep_alive: bool,
    /// Whether bytes followed the end of the response.
    is_unsolicited: bool,
}

/// What to do with a connection at the end of a response.
#[derive(Debug)]
pub(super) enum AfterBody {
    /// Another request may be sent on it.
    Reusable(Connection),
    Close,
    /// Close it because bytes followed the response. It would have been reusable otherwise.
    Unsolicited,
}

/// The head and the body of a request being sent.
type Outgoing = Chain<BytesMut, Bytes>;

/// A request whose response has not begun.
#[derive(Debug)]
struct Pending {
    out: Outgoing,
    /// Size of the complete request in bytes.
    length: usize,
    heads: HeadReader,
    /// Whether response bytes arrived before all of the request was sent.
    is_early: bool,
}

impl Connection {
    /// Wraps a connection on which nothing has been sent.
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, is_drained: false, is_used: false }
    }

    /// Whether an exchange has already taken place on the connection.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Checks whether the upstream has closed an idle connection or sent unsolicited bytes on it.
    pub(super) async fn check_idle(&mut self) -> IdleState {
        poll_fn(|cx| Poll::Ready(self.stream.check_idle(cx))).await
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn ask(
        mut self,
        head: &RequestHead,
        body: Bytes,
    ) -> Result<(Parts, Http1Body), NoResponse> {
        let out = head.for_body(body.len()).chain(body);
        let length = out.remaining();
        let mut pending = Pending { out, length, heads: HeadReader::default(), is_early: false };
        let ResponseHead { parts, body: decoder, keep_alive } =
            poll_fn(|cx| self.poll_head(cx, &mut pending)).await?;
        let Pending { mut out, heads, is_early, .. } = pending;
        if is_early && self.is_used && parts.status.is_success() {
            return Err(NoResponse::Unsolicited);
        }
        let sent = poll_fn(|cx| Poll::Ready(self.poll_write(cx, &mut out))).await;
        let is_sent = matches!(sent, Poll::Ready(Ok(())));
        // An upstream that refuses a request does not need the remainder of it.
        let unsent = (!is_sent && parts.status.is_success()).then(|| Box::new(out));
        let keep_alive = keep_alive && (is_sent || unsent.is_some());
        self.is_used = true;
        let early = heads.into_rest();
        Ok((parts, Http1Body { connection: self, decoder, early, unsent, keep_alive, is_unsolicited: false }))
    }

    /// Writes more of the request and reads the head of the response, which may arrive before all of the request is
    /// written.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        pending: &mut Pending,
    ) -> Poll<Result<ResponseHead, NoResponse>> {
        let mut write_error = match self.poll_write(cx, &mut pending.out) {
            Poll::Ready(Err(error)) => Some(error),
            _ => None,
        };
        // TLS accepts bytes before it writes them, so accepted bytes prove nothing there.
        let is_unsent = pending.out.remaining() == pending.length && matches!(self.stream, Stream::Tcp(_));
        if let Some(error) = write_error.take_if(|_| is_unsent) {
            return Poll::Ready(Err(NoResponse::Unsent(error)));
        }
        loop {
            let heads = &mut pending.heads;
            let read = ready!(self.poll_read(cx, |bytes| {
                heads.push(bytes);
                bytes.len()
            }));
            let read_error = match read {
                Ok(0) => closed(),
                Ok(_) => {
                    pending.is_early |= pending.out.has_remaining();
                    match pending.heads.next_head().map_err(NoResponse::Head)? {
                        Some(head) => return Poll::Ready(Ok(head)),
                        None => continue,
                    }
                }
                Err(error) => error,
            };
            let (error, is_silent) = (write_error.unwrap_or(read_error), pending.heads.is_empty());
            return Poll::Ready(Err(NoResponse::Closed { error, is_silent }));
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

    /// Reads once and passes the bytes to `on_bytes`. There are none if the other side has closed the connection.
    fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        on_bytes: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            // TLS returns one record at a time, so a short read does not mean that the socket is empty.
            self.is_drained = buffer.remaining() > 0 && matches!(self.stream, Stream::Tcp(_));
            Poll::Ready(Ok(on_bytes(buffer.filled())))
        })
    }
}

impl Http1Body {
    /// Passes the next data to `on_data`, in the pieces into which the framing divides it.
    ///
    /// Keeps waiting if only framing has arrived: an upstream could otherwise send framing forever without causing a
    /// timeout.
    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        mut on_data: impl FnMut(&[u8]),
    ) -> Poll<Result<BodyRead, BodyError>> {
        self.poll_send(cx);
        while !self.decoder.is_over() {
            let mut is_data = false;
            ready!(self.poll_decode(cx, |data| {
                is_data = true;
                on_data(data);
            }))?;
            if is_data {
                return Poll::Ready(Ok(BodyRead::Data));
            }
        }
        Poll::Ready(Ok(BodyRead::End))
    }

    /// Reads once and passes the data that the bytes contain to `on_data`.
    fn poll_decode(
        &mut self,
        cx: &mut Context<'_>,
        mut on_data: impl FnMut(&[u8]),
    ) -> Poll<Result<(), BodyError>> {
        let decoder = &mut self.decoder;
        let mut decode = |mut bytes: &[u8]| {
            while let Some(data) = decoder.next(&mut bytes)? {
                on_data(data);
            }
            Ok(bytes.len())
        };
        let left_over = if self.early.is_empty() {
            let read = ready!(self.connection.poll_read(cx, |bytes| match bytes {
                [] => None,
                bytes => Some(decode(bytes)),
            }));
            match read.map_err(BodyError::Connection)? {
                Some(left_over) => left_over,
                None => {
                    self.keep_alive = false;
                    self.decoder.close().map(|()| 0)
                }
            }
        } else {
            decode(&mem::take(&mut self.early))
        };
        self.is_unsolicited |= left_over.map_err(BodyError::Framing)? > 0;
        Poll::Ready(Ok(()))
    }

    /// Sends more of the request. An upstream that stops reading the request may still send its response.
    fn poll_send(&mut self, cx: &mut Context<'_>) {
        let Some(unsent) = &mut self.unsent else { return };
        if let Poll::Ready(sent) = self.connection.poll_write(cx, unsent) {
            self.unsent = None;
            self.keep_alive &= sent.is_ok();
        }
    }

    /// Whether everything that has arrived has been read.
    pub(super) fn is_drained(&self) -> bool {
        self.connection.is_drained && self.early.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        self.decoder.is_over()
    }

    /// Ends the exchange, and returns what to do with the connection.
    pub(super) fn end(self) -> AfterBody {
        let is_reusable = self.keep_alive && self.unsent.is_none() && self.decoder.is_over();
        let is_unsolicited = self.is_unsolicited || !self.early.is_empty();
        match (is_reusable, is_unsolicited) {
            (false, _) => AfterBody::Close,
            (true, true) => AfterBody::Unsolicited,
            (true, false) => AfterBody::Reusable(self.connection),
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed")
}
